#!/bin/sh
# Sets up .venv for one tier and does nothing when it is up to date.
#   scripts/bootstrap.sh run|dev|bench
# PYTHON names the interpreter to use; default: the first of python3, python3.13, 3.12, 3.11 that is new enough.
set -eu

tier=${1:?usage: scripts/bootstrap.sh run|dev|bench}
cd "$(dirname "$0")/.."
lock=locks/$tier.txt
[ -f "$lock" ] || { echo "claimsmith: no lock file $lock; the tiers are run, dev and bench" >&2; exit 2; }

stamp=.venv/.claimsmith-$tier-$(cat "$lock" pyproject.toml | cksum | tr ' ' '-')
[ -f "$stamp" ] && [ -x .venv/bin/python ] && exit 0

fail() {
    echo "claimsmith: $1" >&2
    exit 1
}

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

find_python() {
    found=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        "$candidate" -c '' >/dev/null 2>&1 || continue
        found=$candidate
        "$candidate" -c "$new_enough" && return 0
    done
    if [ -z "$found" ]; then
        fail "found no Python; install Python 3.11 or newer with its venv module, or set PYTHON to one"
    fi
    fail "found $("$found" --version 2>&1), need Python 3.11 or newer; install one or set PYTHON to one"
}

# One set-up at a time: several terminals may share a checkout.
mkdir -p build
if command -v flock >/dev/null 2>&1; then
    exec 9>build/.bootstrap.lock
    flock 9
    [ -f "$stamp" ] && exit 0
fi

if ! .venv/bin/python -c "$new_enough" >/dev/null 2>&1; then
    find_python
    "$found" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "$("$found" --version 2>&1) lacks the venv module; install it (Debian and Ubuntu: apt install python3-venv)"
    echo "claimsmith: setting up .venv with $("$found" --version 2>&1)" >&2
    "$found" -m venv --clear .venv || fail "could not make .venv; the lines above say why"
fi

echo "claimsmith: installing $lock" >&2
pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input -q "$@"; }
pip install --require-hashes --no-deps -r "$lock" ||
    fail "could not install $lock; the lines above say why (a package index must be reachable)"
pip install --no-build-isolation --no-deps -e . || fail "could not install the checkout itself; the lines above say why"

rm -f .venv/.claimsmith-"$tier"-*
: >"$stamp"
