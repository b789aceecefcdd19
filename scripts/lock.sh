#!/bin/sh
# Writes the lock files of locks/ anew: exact versions with hashes, for every platform and Python >= 3.11.
# Needs uv, which it installs into build/lock-venv; `make lock` calls it.
set -eu
cd "$(dirname "$0")/.."
[ -x build/lock-venv/bin/uv ] || {
    python3 -m venv build/lock-venv
    build/lock-venv/bin/python -m pip -q --disable-pip-version-check install uv
}

compile() {
    output=$1
    shift
    build/lock-venv/bin/uv pip compile --quiet --native-tls --universal --python-version 3.11 --generate-hashes \
        --no-annotate --no-header --no-emit-index-url -o "locks/$output.txt" "$@"
}

compile run pyproject.toml --group build -c locks/constraints.txt
compile dev pyproject.toml --extra columns --extra solver --group dev -c locks/constraints.txt -c locks/run.txt
compile kubectl --group kubectl
compile go --group go
