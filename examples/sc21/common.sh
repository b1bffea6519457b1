# shellcheck shell=bash
# What all measurements of "Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM" (SC21) have in common. A figure's script sets TP, PP, MBS, GBS (tensor- and
# pipeline-parallel size, microbatch, global batch), RANKS, LAYERS, HIDDEN and HEADS, fills EXTRA
# with flags of its own, and calls run_case with its arguments: plan or pretrain, further flags.

PHALANX=${PHALANX:-phalanx}
DATA_PATH=${DATA_PATH:-my-gpt_text_document}
VOCAB_FILE=${VOCAB_FILE:-gpt-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt-merges.txt}

run_case() {
  local command=pretrain
  case ${1:-} in
    plan | pretrain) command=$1; shift ;;
  esac
  echo "$RANKS ranks: tensor $TP x pipeline $PP x data $((RANKS / TP / PP)), microbatch $MBS," \
    "global batch $GBS" >&2
  exec "$PHALANX" "$command" gpt \
    --nproc "$RANKS" \
    --tensor-model-parallel-size "$TP" \
    --pipeline-model-parallel-size "$PP" \
    --micro-batch-size "$MBS" \
    --global-batch-size "$GBS" \
    --num-layers "$LAYERS" \
    --hidden-size "$HIDDEN" \
    --num-attention-heads "$HEADS" \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --DDP-impl local \
    --data-path "$DATA_PATH" \
    --vocab-file "$VOCAB_FILE" \
    --merge-file "$MERGE_FILE" \
    --split 969,30,1 \
    --train-iters 500 \
    --lr 0.0001 \
    --min-lr 0.00001 \
    --lr-decay-style cosine \
    --lr-decay-iters 320 \
    --lr-warmup-fraction 0.01 \
    --clip-grad 1.0 \
    --fp16 \
    --loss-scale 8192 \
    --log-interval 5 \
    --eval-interval 1000 \
    --eval-iters 100 \
    "${EXTRA[@]}" "$@"
}
