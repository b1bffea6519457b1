# shellcheck shell=bash
# What the scripts of this folder train: GPT-2 with 124 million parameters, unless LAYERS, HIDDEN, HEADS and SEQUENCE say
# otherwise, split over RANKS ranks by TP, PP and what is left (data parallel). A script fills START with the words that
# start the ranks ("phalanx launch ... --"), calls make_command with its arguments (plan or pretrain, further flags), and
# runs COMMAND.

PHALANX=${PHALANX:-phalanx}
TP=${TP:-1}
PP=${PP:-1}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_124m}

make_command() {
  local command=pretrain start=("${START[@]}")
  case ${1:-} in
    plan) command=plan start=("$PHALANX"); shift ;;
    pretrain) shift ;;
  esac
  local flags=(
    --tensor-model-parallel-size "$TP"
    --pipeline-model-parallel-size "$PP"
    --num-layers "${LAYERS:-12}"
    --hidden-size "${HIDDEN:-768}"
    --num-attention-heads "${HEADS:-12}"
    --seq-length "${SEQUENCE:-1024}"
    --max-position-embeddings "${SEQUENCE:-1024}"
    --micro-batch-size "${MICROBATCH:-4}"
    --global-batch-size "${BATCH:-64}"
    --bf16

    --train-iters "${ITERATIONS:-10000}"
    --lr 6.0e-4
    --min-lr 6.0e-5
    --lr-decay-style cosine
    --lr-warmup-fraction .01
    --weight-decay 1e-1
    --clip-grad 1.0

    --data-path "$DATA_PATH"
    --vocab-file "$VOCAB_FILE"
    --merge-file "$MERGE_FILE"
    --split "949,50,1"

    --save "$CHECKPOINT_PATH"
    --load "$CHECKPOINT_PATH"
    --save-interval "${SAVE_INTERVAL:-500}"
    --log-interval "${LOG_INTERVAL:-10}"
    --eval-interval 500
    --eval-iters "${EVAL_ITERATIONS:-10}"
  )
  # Slurm or torchrun has started the job again: it goes on, and does not begin anew where CHECKPOINT_PATH is gone. (A job that
  # was ended before its first checkpoint begins again if CHECKPOINT_PATH/.job names it, else it is submitted again by hand.)
  if [ "$command" = pretrain ] &&
    ((${SLURM_RESTART_COUNT:-0} > 0 || ${TORCHELASTIC_RESTART_COUNT:-0} > 0)); then
    flags+=(--exit-on-missing-checkpoint)
  fi
  if [ "$command" = plan ]; then flags+=(--world-size "$RANKS"); fi
  COMMAND=("${start[@]}" "$command" gpt "${flags[@]}" "$@")
}
