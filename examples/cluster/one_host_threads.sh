#!/usr/bin/env bash
# GPT on one host, the ranks are threads of one process: the simplest way to many ranks.
#   RANKS=2 examples/cluster/one_host_threads.sh
# Needs: DATA_PATH, VOCAB_FILE, MERGE_FILE (README.md beside this folder). Further flags may follow.
set -euo pipefail
source "$(dirname "$0")/common.sh"

RANKS=${RANKS:-2}
START=("$PHALANX")
make_command "$@"
if [ "${1:-}" != plan ]; then COMMAND+=(--nproc "$RANKS"); fi
exec "${COMMAND[@]}"
