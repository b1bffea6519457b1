#!/usr/bin/env bash
# Figure 13: 64 ranks as pipeline stages or as ranks that share every layer, 162 billion parameters.
#   PP=8 GBS=128 examples/sc21/run_figure_13.sh plan
set -euo pipefail
PP=${PP:-2}      # 2, 4, 8, 16, 32
GBS=${GBS:-32}   # 32, 128

RANKS=64 MBS=1
TP=$((RANKS / PP))
LAYERS=32 HIDDEN=20480 HEADS=128
EXTRA=(--activations-checkpoint-method uniform)

# shellcheck source=examples/sc21/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run_case "$@"
