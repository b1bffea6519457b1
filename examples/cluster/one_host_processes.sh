#!/usr/bin/env bash
# GPT on one host, every rank a process: one that dies is named, and the others end or start again.
#   RANKS=2 examples/cluster/one_host_processes.sh
# Needs: DATA_PATH, VOCAB_FILE, MERGE_FILE. No port is opened and no secret needed: the ranks meet on a Unix socket.
# Each rank's output is kept in logs/. Further flags of pretrain may follow.
set -euo pipefail
source "$(dirname "$0")/common.sh"

RANKS=${RANKS:-2}
START=("$PHALANX" launch --nproc-per-node "$RANKS" --max-restarts "${RESTARTS:-3}" --log-dir "${LOG_DIR:-logs}" --)
make_command "$@"
exec "${COMMAND[@]}"
