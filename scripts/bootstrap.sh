#!/bin/sh
# Sets up .venv for one tier and does nothing when it is up to date.
#   scripts/bootstrap.sh run|dev
# PYTHON names the interpreter to use; default: the first of python3, python3.13, 3.12, 3.11 that is new enough.
set -eu

tier=${1:?usage: scripts/bootstrap.sh run|dev}
cd "$(dirname "$0")/.."
lock=locks/$tier.txt
[ -f "$lock" ] || { echo "claimsmith: no lock file $lock; the tiers are run and dev" >&2; exit 2; }

stamp=.venv/.claimsmith-$tier-$(cat "$lock" pyproject.toml | cksum | tr ' ' '-')
[ -f "$stamp" ] && [ -x .venv/bin/python ] && exit 0

fail() {
    echo "claimsmith: $1" >&2
    exit 1
}

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

find_python() {
    problem="found no Python; install Python 3.11 or newer with its venv module, or set PYTHON to one"
    for found in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        version=$("$found" --version 2>/dev/null) || continue
        if ! "$found" -c "$new_enough"; then
            problem="found $version, need Python 3.11 or newer; install one or set PYTHON to one"
        elif ! "$found" -c 'import ensurepip, venv' 2>/dev/null; then
            problem="$version lacks the venv module; install it (Debian and Ubuntu: apt install python3-venv)"
        else
            return 0
        fi
    done
    fail "$problem"
}

# One set-up at a time: several terminals may share a checkout.
mkdir -p build
if command -v flock >/dev/null 2>&1; then
    exec 9>build/.bootstrap.lock
    flock 9
    [ -f "$stamp" ] && exit 0
fi

# A .venv that is half made, or whose interpreter is gone, is made anew.
if ! .venv/bin/python -c "import pip; $new_enough" >/dev/null 2>&1; then
    find_python
    echo "claimsmith: setting up .venv with $version" >&2
    "$found" -m venv --clear .venv || fail "could not make .venv; the lines above say why"
fi

echo "claimsmith: installing $lock" >&2
pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input -q "$@"; }
pip install --require-hashes --no-deps -r "$lock" ||
    fail "could not install $lock; the lines above say why (a package index must be reachable)"
pip install --no-build-isolation --no-deps -e . || fail "could not install the checkout itself; the lines above say why"

rm -f .venv/.claimsmith-"$tier"-*
: >"$stamp"
