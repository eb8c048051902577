#!/bin/sh
# Install the TypeScript compiler, with which the types of clients/typescript are tested, into the virtual environment $1.
# Needs npm; without it that test is skipped.
set -eu
venv=${1:-.venv}
[ ! -d "$venv/share/typescript" ] || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" typescript@5.9.3 >/dev/null
tar -xzf "$folder"/typescript-*.tgz -C "$folder"
mkdir -p "$venv/share"
mv "$folder/package" "$venv/share/typescript"
