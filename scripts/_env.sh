# Sourced by the other scripts: makes .venv and installs logitjudge with the extra named in $1 into it, once.
source "$(dirname "${BASH_SOURCE[0]}")/_venv.sh"
venv=${LOGITJUDGE_VENV:-.venv}
extra=${1:-}

install_logitjudge() {
    "${pip[@]}" install --quiet "$torch"   # by name, first: a plain 'torch' could bring another build
    if [ -n "$extra" ]; then
        "${pip[@]}" install --quiet -c tests/constraints.txt -e ".[$extra]"
    else
        "${pip[@]}" install --quiet -e .
    fi
}

install_once "$venv" "${extra:-base}" "$(cat pyproject.toml tests/constraints.txt; echo "$torch $PWD")" install_logitjudge
