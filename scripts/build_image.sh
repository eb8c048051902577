#!/bin/sh
# Build the container image `reverie` with podman, buildah or docker, whichever works here.
# Arguments are passed on, such as --build-arg BASE=registry.example/python:3.13-slim.
set -eu
cd "${0%/*}/.."
for builder in podman buildah docker; do
    if command -v "$builder" >/dev/null 2>&1 && "$builder" info >/dev/null 2>&1; then
        [ "$builder" = docker ] || set -- --format docker "$@"  # the OCI format has no HEALTHCHECK
        exec "$builder" build "$@" --tag reverie --file Containerfile .
    fi
done
echo "There is no builder of container images here: install podman, buildah or docker, and start its service" >&2
exit 1
