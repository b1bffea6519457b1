#!/usr/bin/env bash
# GPT with 345 million parameters on eight ranks: two share every layer, two pipeline stages share
# the layers, and two such copies of the model share the data.
#   examples/pretrain_gpt_345m_distributed_with_mp.sh plan
#   examples/pretrain_gpt_345m_distributed_with_mp.sh
# Further flags of phalanx may follow; they win over those below.
set -euo pipefail

PHALANX=${PHALANX:-phalanx}
RANKS=${RANKS:-8}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_345m_mp}

case ${1:-} in
  plan | pretrain) command=$1; shift ;;
  *) command=pretrain ;;
esac

flags=(
  --nproc "$RANKS"   # in place of torchrun: the program starts its ranks itself
  --tensor-model-parallel-size 2
  --pipeline-model-parallel-size 2
  --sequence-parallel
  --DDP-impl local
  --distributed-backend nccl

  --num-layers 24
  --hidden-size 1024
  --num-attention-heads 16
  --seq-length 1024
  --max-position-embeddings 1024
  --micro-batch-size 4
  --global-batch-size 16
  --activations-checkpoint-method uniform

  --train-iters 500000
  --lr 0.00015
  --min-lr 1.0e-5
  --lr-decay-style cosine
  --lr-decay-iters 320000
  --lr-warmup-fraction .01
  --weight-decay 1e-2
  --clip-grad 1.0
  --fp16

  --data-path "$DATA_PATH"
  --vocab-file "$VOCAB_FILE"
  --merge-file "$MERGE_FILE"
  --data-impl mmap
  --split "949,50,1"

  --save "$CHECKPOINT_PATH"
  --load "$CHECKPOINT_PATH"
  --save-interval 10000
  --log-interval 100
  --eval-interval 1000
  --eval-iters 10
)
exec "$PHALANX" "$command" gpt "${flags[@]}" "$@"
