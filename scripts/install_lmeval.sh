#!/usr/bin/env bash
# Makes .venv-lmeval, in which 'logitjudge bench' times lm-evaluation-harness. Once; run again, it checks.
set -euo pipefail
source "$(dirname "$0")/_venv.sh"
venv=.venv-lmeval

install_lmeval() {
    "${pip[@]}" install --quiet "$torch"   # by name, first: a plain 'torch' could bring another build
    "${pip[@]}" install --quiet "lm_eval[hf]" "transformers>=5.19"
}

install_once "$venv" lmeval "$(cat "$0"; echo "$torch")" install_lmeval
"$venv/bin/python" -W ignore -c "
import importlib.metadata, torch, transformers, lm_eval.models.huggingface
print('lm_eval', importlib.metadata.version('lm_eval'), 'torch', torch.__version__, 'transformers', transformers.__version__)"
echo "$venv is ready: logitjudge bench --engines packed,lm_eval --model MODEL"
