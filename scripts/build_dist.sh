#!/bin/sh
# Build wheel and sdist into dist, and check them: two builds are the same, the description is valid, the wheel has
# what belongs into it and nothing else, and it works alone. `build_dist.sh PYTHON_BIN_FOLDER`.
set -eu
bin=$(cd "${1:-.venv/bin}" && pwd)
cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)
export SOURCE_DATE_EPOCH
work=$(mktemp -d "${TMPDIR:-/tmp}/reverie-dist.XXXXXX")
trap 'rm -rf "$work"' EXIT
for turn in first second; do
    "$bin/python" -m build --outdir "$work/$turn" . >"$work/$turn.log" 2>&1 || {
        cat "$work/$turn.log" >&2
        exit 1
    }
done
for file in "$work"/first/*; do
    cmp "$file" "$work/second/$(basename "$file")"
done
"$bin/twine" check --strict "$work"/first/*
"$bin/check-wheel-contents" "$work"/first/*.whl
"$bin/python" scripts/check_wheel.py "$work/first"
mkdir -p dist
cp "$work"/first/* dist
(cd dist && sha256sum $(ls "$work/first"))
