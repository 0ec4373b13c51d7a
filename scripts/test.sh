#!/usr/bin/env bash
# Makes .venv, installs logitjudge with what the tests need, and runs the tests. Arguments go to pytest.
set -euo pipefail
source "$(dirname "$0")/_env.sh" dev
exec "$venv/bin/python" -m pytest -m "not (vllm or ray or browser or notebooks or gpu)" "$@"
