#!/bin/sh
# Do the integrations work at both ends of the ranges that pyproject.toml allows? For each NAME, an extra, the
# lowest and the highest release that can be installed are put into an environment of their own, and the tests
# of that integration run there. Prints one line for each: name, version, tests passed.
#
#     scripts/check_versions.sh NAME [NAME...]      without a name: all that there are
#     ENDS=highest scripts/check_versions.sh NAME   the highest release only
#
# Environments are made under a temporary folder and removed; the packages come from pip's or uv's cache where
# they are there already.
set -u
cd "$(dirname "$0")/.." || exit 2
ALL="anthropic mcp openai-agents langgraph pydantic-ai lightrag langchain agent-framework google-adk
claude-agent strands llama-index"
here=$(pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/reverie-versions.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

python=${PYTHON:-.venv/bin/python}
command -v "$python" >/dev/null 2>&1 || python=python3

# What pyproject.toml says: the package of an extra with its range, and what its tests need beside pytest.
wanted() {
    "$python" - "$1" <<'PY'
import re
import sys
import tomllib

name = sys.argv[1]
beside = {
    "mcp": ("fastapi", "uvicorn", "prometheus-client", "jinja2", "swagger-ui-bundle-v2", "httpx"),
    "langgraph": ("langgraph", "langgraph-checkpoint-sqlite", "langmem"),
    "pydantic-ai": ("openai",),
    "strands": ("openai",),
}
always = ("pytest", "pytest-timeout", "hypothesis", "PyYAML")
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
extras = project["project"]["optional-dependencies"]
if name not in extras:
    sys.exit(f"there is no extra {name!r} in pyproject.toml")
own = extras[name][0]
print(re.match(r"[A-Za-z0-9._-]+", own)[0])
print(own)
for each in project["dependency-groups"]["dev"]:
    package = re.match(r"[A-Za-z0-9._-]+", each)[0]
    if package in (*always, *beside.get(name, ())):
        print(each)
PY
}

# The releases within a range, the lowest first.
releases() {
    "$python" -m pip index versions "$1" 2>/dev/null | "$python" -c '
import re
import sys

from pip._vendor.packaging.specifiers import SpecifierSet
from pip._vendor.packaging.version import Version

within = SpecifierSet(re.sub(r"^[A-Za-z0-9._-]+(\[[^]]*\])?", "", sys.argv[1]))
listed = re.search(r"^Available versions: (.*)$", sys.stdin.read(), re.MULTILINE)
versions = sorted(map(Version, listed[1].split(", "))) if listed else []
print("\n".join(str(each) for each in versions if each in within))' "$2"
}

# The tests of an integration: test_NAME.py and test_NAME_*.py, but not those of a longer name.
tests_of() {
    stem=$(echo "$1" | tr - _)
    for file in $(find tests -name "test_$stem.py" -o -name "test_${stem}_*.py" | sort); do
        for other in $ALL; do
            longer=$(echo "$other" | tr - _)
            case $longer in
            "$stem"_*) case $(basename "$file") in "test_$longer.py" | "test_${longer}_"*) continue 2 ;; esac ;;
            esac
        done
        echo "$file"
    done
}

environment() {
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --python "$python" "$1"
    else
        "$python" -m venv "$1"
    fi
}

install() {
    into=$1
    shift
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python "$into/bin/python" "$@"
    else
        "$into/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

# check NAME: the lowest release that can be installed, and the highest.
check() {
    name=$1
    wanted "$name" >"$work/wanted" || return 1
    package=$(sed -n 1p "$work/wanted")
    own=$(sed -n 2p "$work/wanted")
    sed 1,2d "$work/wanted" >"$work/beside"
    releases "$package" "$own" >"$work/releases"
    tests=$(tests_of "$name")
    if [ ! -s "$work/releases" ]; then
        echo "$name: no release within $own can be installed" >&2
        return 1
    fi
    if [ -z "$tests" ]; then
        echo "$name: there are no tests of the name tests/**/test_$(echo "$name" | tr - _)*.py" >&2
        return 1
    fi
    sort -r -V "$work/releases" >"$work/highest-first"
    result=0
    case ${ENDS:-both} in both | lowest) at "$name" lowest "$work/releases" || result=1 ;; esac
    case ${ENDS:-both} in both | highest) at "$name" highest "$work/highest-first" || result=1 ;; esac
    return $result
}

# at NAME END LIST: install the first release of the list that can be installed, and run the tests with it.
at() {
    tried=0
    while read -r version; do
        tried=$((tried + 1))
        if [ "$tried" -gt 5 ]; then
            break
        fi
        venv=$work/venv
        rm -rf "$venv"
        environment "$venv" >"$work/log" 2>&1 || break
        if install "$venv" --editable "$here" "$package==$version" --requirement "$work/beside" \
            >>"$work/log" 2>&1; then
            # shellcheck disable=SC2086  # the names of the tests' files, which have no blanks
            if "$venv/bin/python" -m pytest -p no:cacheprovider $tests >"$work/log" 2>&1; then
                echo "$1 $version ($2): $(tail -n 1 "$work/log")"
                return 0
            fi
            cat "$work/log" >&2
            echo "$1 $version ($2): FAILED, $(tail -n 1 "$work/log")"
            return 1
        fi
        echo "$1 $version cannot be installed, the next one is tried" >&2
    done <"$3"
    cat "$work/log" >&2
    echo "$1 ($2): FAILED, nothing could be installed"
    return 1
}

[ $# -gt 0 ] || set -- $ALL
failed=0
for each in "$@"; do
    check "$each" || failed=1
done
exit $failed
