#!/bin/sh
# Make the virtual environment at $1 with the Python $2 and install Reverie in it.
# With a dependency group as $3, also that group, and changes of the checkout take effect at once.
# Uses uv where it is installed; needs nothing but Python 3.11 or newer otherwise.
set -eu
venv=$1 python=$2 group=${3:-}
log=$venv/setup.log

python_of() {
    for name in "$python" python3 python; do
        if command -v "$name" >/dev/null 2>&1 &&
            "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    echo "Reverie needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
    exit 1
}

if command -v uv >/dev/null 2>&1; then
    [ -x "$venv/bin/python" ] || uv venv --quiet --python "$(python_of)" "$venv"
    if [ -n "$group" ]; then
        uv pip install --quiet --python "$venv/bin/python" --editable . --group "$group"
    else
        uv pip install --quiet --python "$venv/bin/python" --reinstall-package reverie .
    fi
    exit 0
fi

if [ ! -x "$venv/bin/python" ] || [ -z "$group" ]; then
    interpreter=$(python_of)
    "$interpreter" -m venv --clear "$venv" || {
        echo "Python's venv module is missing; on Debian or Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
fi
echo "Installing into $venv ..."
if [ -z "$group" ]; then
    # pip itself takes as much room as half of Reverie, and is not needed again.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile . >"$log" 2>&1 &&
        "$venv/bin/python" -m pip uninstall --quiet --yes setuptools pip >>"$log" 2>&1 && exit 0
    cat "$log" >&2
    exit 1
fi
# Dependency groups need pip 25.1 or newer, which a new environment seldom has.
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1" >"$log" 2>&1 ||
    ! "$venv/bin/python" -m pip install --quiet --editable . --group "$group" >>"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
