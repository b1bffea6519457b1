#!/usr/bin/env bash
# Figure 15: 64 ranks that share every layer or are copies of the model, 5.9 billion parameters.
#   TP=8 GBS=128 examples/sc21/run_figure_15.sh plan
set -euo pipefail
TP=${TP:-2}      # 2, 4, 8, 16, 32
GBS=${GBS:-32}   # 32, 128, 512

RANKS=64 PP=1 MBS=1
LAYERS=32 HIDDEN=3840 HEADS=32
EXTRA=(--activations-checkpoint-method uniform)

# shellcheck source=examples/sc21/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run_case "$@"
