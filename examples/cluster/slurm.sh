#!/usr/bin/env bash
#SBATCH --job-name=gpt
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
# GPT under Slurm: srun starts the ranks, a task each; no launcher is needed.
#   sbatch examples/cluster/slurm.sh            # from the repository's root
# Needs: program, data and CHECKPOINT_PATH on a file system that all nodes see. 300 s before its time is over Slurm sends
# SIGTERM: the run saves, ends with 85, and the job goes back into the queue, from where it goes on. So it does when a
# rank was lost (75), killed (128 and the signal) or hung (124), but no more than REQUEUES times.
set -euo pipefail
folder=$(dirname "$0")
[ -f "$folder/common.sh" ] || folder=$SLURM_SUBMIT_DIR/examples/cluster # sbatch runs a copy
source "$folder/common.sh"

RANKS=${SLURM_NTASKS:-4}
if [ "${1:-}" = plan ]; then
  START=("$PHALANX")
  make_command "$@"
  exec "${COMMAND[@]}"
fi

# Ranks on several hosts prove to each other that they know a secret: one for this job alone.
secret=$(mktemp "$SLURM_SUBMIT_DIR/.rdzv_secret_${SLURM_JOB_ID}_XXXXXX") # only its owner may read it
trap 'rm -f "$secret"' EXIT
head -c 32 /dev/urandom >"$secret"
export PHALANX_RDZV_SECRET_FILE=$secret
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") # no "| head": scontrol could end by SIGPIPE
MASTER_ADDR=${hosts%%$'\n'*}
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1} # srun no longer takes it from the job by itself

# Ranks end each other when one is lost, and rank 0 may then still be saving: srun does not end them at once, but what
# is left SAVE_LIMIT seconds after the first one's end. It must be longer than a save takes.
START=(srun --kill-on-bad-exit=0 --wait="${SAVE_LIMIT:-900}" "$PHALANX")
make_command "$@"
status=0
"${COMMAND[@]}" || status=$? # the largest of all ranks
again=
case $status in
  85) again=1 ;;
  75 | 124 | 13[1-9] | 14[0-9])
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "${REQUEUES:-10}" ]; then again=1; fi
    ;;
esac
rm -f "$secret" # a job that goes back into the queue is ended at once
if [ "$again" ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
