#!/usr/bin/env bash
# One run as eight shards on a Slurm cluster, then put together and closed:
#   array=$(sbatch --parsable --array=1-8 scripts/slurm_array.sh)
#   sbatch --dependency=afterok:$array --export=ALL,CLOSE=1 scripts/slurm_array.sh
# A task that was lost is submitted again (--array=3): it goes on from what is stored.
#SBATCH --job-name=logitjudge
#SBATCH --gres=gpu:1
#SBATCH --time=08:00:00
set -euo pipefail
model=${MODEL:-Qwen/Qwen3-8B}
data=${DATA:-mt_bench:mt_bench_eval.json}
out=${OUT:-runs/q8}
shards=${SHARDS:-8}
# One batch plan for all: the same --max-batch-tokens, whatever memory a node has free.
command=(logitjudge run --model "$model" --data "$data" --max-batch-tokens "${TOKENS:-16384}")
if [ -n "${CLOSE:-}" ]; then
    logitjudge merge "$out" $(seq -f "$out-shard-%g" 1 "$shards")
    exec "${command[@]}" --out "$out"
fi
exec "${command[@]}" --out "$out-shard-$SLURM_ARRAY_TASK_ID" --shard "$SLURM_ARRAY_TASK_ID/$shards"
