#!/usr/bin/env bash
# GPT on eight processes of one host: tensor parallel 2 x pipeline parallel 4, with sequence parallelism.
#   examples/cluster/tensor2_pipeline4.sh plan      # the memory and messages of each rank
#   examples/cluster/tensor2_pipeline4.sh
# Needs: DATA_PATH, VOCAB_FILE, MERGE_FILE; 8 cores to be fast, fewer to try. Tensor-parallel ranks talk the most: keep
# them on one host (ranks 0 and 1, 2 and 3, ...), the pipeline may cross the network.
set -euo pipefail
source "$(dirname "$0")/common.sh"

RANKS=8 TP=2 PP=4
START=("$PHALANX" launch --nproc-per-node "$RANKS" --max-restarts "${RESTARTS:-3}" --log-dir "${LOG_DIR:-logs}" --)
make_command "${@:-pretrain}" --sequence-parallel
exec "${COMMAND[@]}"
