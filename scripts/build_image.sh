#!/bin/sh
# Build the container image `reverie` with podman, buildah or docker, whichever works here.
set -eu
cd "${0%/*}/.."
for builder in podman buildah docker; do
    if command -v "$builder" >/dev/null 2>&1 && "$builder" info >/dev/null 2>&1; then
        exec "$builder" build --tag reverie --file Containerfile .
    fi
done
echo "There is no builder of container images here: install podman, buildah or docker, and start its service" >&2
exit 1
