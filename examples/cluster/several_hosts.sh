#!/usr/bin/env bash
# GPT on several hosts, started by hand: run this on every host, NODE_RANK from 0 to NNODES - 1.
#   on n01:  NNODES=2 NODE_RANK=0 MASTER_ADDR=n01 examples/cluster/several_hosts.sh
#   on n02:  NNODES=2 NODE_RANK=1 MASTER_ADDR=n01 examples/cluster/several_hosts.sh
# Needs: the program, the data and CHECKPOINT_PATH under the same names on every host (the last one on a shared file
# system); MASTER_PORT of the first host open to the others; and a secret that all of them know, in a file that nobody else
# may read. Once:
#   (umask 077; head -c 32 /dev/urandom >rdzv.secret) && scp -p rdzv.secret n02:
set -euo pipefail
source "$(dirname "$0")/common.sh"

NNODES=${NNODES:-2}
RANKS_PER_HOST=${RANKS_PER_HOST:-1}
RANKS=$((NNODES * RANKS_PER_HOST))
START=("$PHALANX" launch --nnodes "$NNODES" --node-rank "${NODE_RANK:-0}" --nproc-per-node "$RANKS_PER_HOST"
  --master-addr "${MASTER_ADDR:-localhost}" --master-port "${MASTER_PORT:-29500}"
  --rdzv-secret-file "${SECRET_FILE:-rdzv.secret}"
  --max-restarts "${RESTARTS:-3}" --log-dir "${LOG_DIR:-logs}" --)
make_command "$@"
exec "${COMMAND[@]}"
