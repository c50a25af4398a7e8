# Sourced by the scripts beside it: the project's Python environment, in .venv.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

# Make .venv hold the project and all that it needs. Takes no time when it is there.
ensure_venv() {
    [ -x "$venv/bin/pipeline" ] && return
    "${PYTHON:-python3}" -m venv "$venv"
    echo "Installing into $venv" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root[embedded,test]"
}
