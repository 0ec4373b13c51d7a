# Sourced by the other scripts: `install_once VENV STAMP WANTED STEP` makes VENV and runs STEP, a function that installs
# into it with "${pip[@]}", once; again when WANTED, the text that STEP depends on, has changed or STEP did not end.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
torch=${LOGITJUDGE_TORCH:-torch==2.13.0}

install_once() {
    local venv=$1 stamp=$1/.logitjudge-installed-$2 wanted=$3 step=$4
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    echo "installing into $venv (once)" >&2
    [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
    pip=("$venv/bin/python" -m pip --disable-pip-version-check)
    "$step"
    echo "$wanted" > "$stamp"
}
