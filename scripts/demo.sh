#!/usr/bin/env bash
# Makes .venv, installs logitjudge, and runs the main job on the embedded judge and the demo items (a few minutes on a CPU).
set -euo pipefail
source "$(dirname "$0")/_env.sh" ""
exec "$venv/bin/logitjudge" demo "$@"
