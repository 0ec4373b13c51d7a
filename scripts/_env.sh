# Sourced by the other scripts: makes .venv and installs logitjudge with the extra named in $1 into it, once.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${LOGITJUDGE_VENV:-.venv}
torch=${LOGITJUDGE_TORCH:-torch==2.13.0}
extra=${1:-}
stamp=$venv/.logitjudge-installed-${extra:-base}
wanted=$(cat pyproject.toml tests/constraints.txt; echo "$torch $PWD")
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "installing into $venv (once)" >&2
    [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
    pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet)
    "${pip[@]}" "$torch"   # by name, first: a plain 'torch' could bring another build
    if [ -n "$extra" ]; then
        "${pip[@]}" -c tests/constraints.txt -e ".[$extra]"
    else
        "${pip[@]}" -e .
    fi
    echo "$wanted" > "$stamp"
fi
