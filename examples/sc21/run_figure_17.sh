#!/usr/bin/env bash
# Figure 17: what recomputing activations costs and allows, 145 billion parameters on 128 ranks.
#   ACTIVATION_RECOMPUTATION=NO GBS=4 examples/sc21/run_figure_17.sh plan
set -euo pipefail
ACTIVATION_RECOMPUTATION=${ACTIVATION_RECOMPUTATION:-YES}   # YES, NO
GBS=${GBS:-1}                                               # 1, 2, 4, ... 256

TP=8 PP=16 MBS=1 RANKS=128
LAYERS=80 HIDDEN=12288 HEADS=96
EXTRA=()
if [[ $ACTIVATION_RECOMPUTATION == YES ]]; then
  EXTRA+=(--activations-checkpoint-method uniform)
fi

# shellcheck source=examples/sc21/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run_case "$@"
