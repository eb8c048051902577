#!/bin/sh
# Install what tests of clients in TypeScript need into the virtual environment $1: the compiler, and mem0's own client.
# Needs npm; without them those tests are skipped.
set -eu
venv=${1:-.venv}
mkdir -p "$venv/share"
[ -d "$venv/share/mem0/node_modules/mem0ai" ] ||
    npm install --silent --no-audit --no-fund --legacy-peer-deps --ignore-scripts --prefix "$venv/share/mem0" mem0ai@3.3.1
[ ! -d "$venv/share/typescript" ] || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" typescript@5.9.3 >/dev/null
tar -xzf "$folder"/typescript-*.tgz -C "$folder"
mv "$folder/package" "$venv/share/typescript"
