#!/usr/bin/env bash
# Figure 14: 64 ranks as pipeline stages or as copies of the model, 5.9 billion parameters.
#   PP=8 GBS=512 examples/sc21/run_figure_14.sh plan
set -euo pipefail
PP=${PP:-2}      # 2, 4, 8, 16, 32
GBS=${GBS:-32}   # 32, 512

RANKS=64 TP=1 MBS=1
LAYERS=32 HIDDEN=3840 HEADS=32
EXTRA=(--activations-checkpoint-method uniform)

# shellcheck source=examples/sc21/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run_case "$@"
