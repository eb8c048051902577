#!/bin/sh
# Install what the tests of the web page in a browser need: Debian's Chromium, Playwright and axe-core.
# $1 is the virtual environment. Needs Debian or Ubuntu, root and npm; without them those tests are skipped.
set -eu
cd "$(dirname "$0")/.."
venv=${1:-.venv}
if ! command -v chromium >/dev/null 2>&1 && ! command -v chromium-headless-shell >/dev/null 2>&1; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "Chromium is missing, and only root can install it; the tests in a browser are skipped" >&2
        exit 0
    fi
    apt-get update --quiet
    apt-get install --yes --no-install-recommends chromium
fi
"$venv/bin/python" -c "import playwright" 2>/dev/null || "$venv/bin/python" -m pip install --quiet "playwright>=1.50,<2"
if [ ! -f "$venv/share/axe.min.js" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    npm pack --silent --pack-destination "$folder" axe-core@4.14.1 >/dev/null
    tar -xzf "$folder"/axe-core-*.tgz -C "$folder" package/axe.min.js
    mkdir -p "$venv/share"
    mv "$folder/package/axe.min.js" "$venv/share/axe.min.js"
fi
