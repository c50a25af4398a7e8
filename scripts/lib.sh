# Sourced by the scripts beside it: the project's Python environment, in .venv.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

# Keep what Python compiles, also in shells that say otherwise: tests and the demo start hundreds of processes, and each would
# compile the whole project anew.
unset PYTHONDONTWRITEBYTECODE

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Print the first Python that is new enough; $PYTHON goes first.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer was found: install one (apt-get install python3), or name one in PYTHON"
}

# What the environment is made from, for the lock file $1.lock: it is made anew, or brought up to date, when this changes.
wanted_stamp() {
    echo "$root"
    cksum <"$root/setup.cfg"
    cksum <"$root/pyproject.toml"
    echo "$1"
    cksum <"$root/requirements/$1.lock"
}

make_venv() {
    local python version
    python=$(find_python)
    echo "Making $venv with $python" >&2
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv --clear "$venv"
    elif "$python" -m pip --version >/dev/null 2>&1; then
        # Debian ships venv without ensurepip; the system's pip can put one into the environment.
        "$python" -m venv --clear --without-pip "$venv"
        "$python" -m pip --python "$venv/bin/python" install --quiet pip
    else
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$python cannot make virtual environments: apt-get install python$version-venv"
    fi
}

# Install these by uv, which takes a few seconds where pip takes minutes; by pip where uv fails, or is not to be had.
install() {
    local index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$("$venv/bin/python" -m pip config get global.index-url 2>/dev/null || true)}}
    if pip_install --require-hashes --requirement <(sed -n '/^uv==/,/[^\\]$/p' "$root/requirements/development.lock") &&
        env ${index:+"UV_DEFAULT_INDEX=$index"} "$venv/bin/uv" pip install --python "$venv/bin/python" "$@"; then
        return
    fi
    echo "Installing with pip instead; this may take some minutes" >&2
    pip_install "$@"
}

# Print the name of each package as it is fetched.
pip_install() {
    # setuptools warns of what an editable installation is.
    PYTHONWARNINGS=ignore "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@" |
        sed -un -e 's/^Collecting \([^ ]*\).*/  \1/p' -e 's/^Installing collected.*/  unpacking/p' >&2
}

# Make .venv hold the project and what requirements/$1.lock names: `demo`, what runs the service on this machine, or
# `development`, which has all of that and what tests need. Takes no time when nothing changed.
ensure_venv() {
    local lock have stamp=$venv/.stamp
    exec {lock}<"$root"
    flock "$lock"
    have=$(cat "$stamp" 2>/dev/null || true)
    if [ "$have" != "$(wanted_stamp "$1")" ] && [ "$have" != "$(wanted_stamp development)" ]; then
        if [ "$root" != "$(head -n 1 "$stamp" 2>/dev/null)" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
            make_venv
        fi
        echo "Installing $(grep -c '^[^ #]*==' "$root/requirements/$1.lock") packages into $venv, from the package index of pip" >&2
        install --require-hashes --requirement "$root/requirements/$1.lock"
        install --no-deps --editable "$root"
        wanted_stamp "$1" >"$stamp"
    fi
    exec {lock}<&-
}
