#!/bin/sh
# Write DIST/reverie.cdx.json, the CycloneDX bill of materials of the newest wheel in DIST and of all that it installs.
# Usage: build_sbom.sh VENV DIST, where VENV has cyclonedx-bom.
set -eu
venv=$1 dist=$2
wheel=$(ls -t "$dist"/reverie-*.whl | head -n 1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$venv/bin/python" -m venv --without-pip "$folder/venv"
"$venv/bin/python" -m pip --python "$folder/venv/bin/python" install --quiet --disable-pip-version-check "$wheel[server,postgres,otel]"
"$venv/bin/cyclonedx-py" environment --pyproject pyproject.toml --mc-type library --output-reproducible --output-format JSON \
    --output-file "$dist/reverie.cdx.json" "$folder/venv"
"$venv/bin/python" scripts/check_sbom.py "$dist/reverie.cdx.json"
