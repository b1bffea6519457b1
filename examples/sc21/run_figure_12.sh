#!/usr/bin/env bash
# Figure 12: what interleaved stages gain, 175 billion parameters on 96 ranks.
#   INTERLEAVED=NO GBS=60 examples/sc21/run_figure_12.sh plan
set -euo pipefail
INTERLEAVED=${INTERLEAVED:-YES}   # YES, NO
GBS=${GBS:-12}                    # 12, 24, ... 60

TP=8 PP=12 MBS=1 RANKS=96
LAYERS=96 HIDDEN=12288 HEADS=96
EXTRA=(--activations-checkpoint-method uniform)
if [[ $INTERLEAVED == YES ]]; then
  EXTRA+=(--num-layers-per-virtual-pipeline-stage 2)
fi

# shellcheck source=examples/sc21/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run_case "$@"
