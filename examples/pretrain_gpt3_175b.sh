#!/usr/bin/env bash
# GPT-3 with 175 billion parameters: eight ranks share every layer, sixteen stages the layers.
#   examples/pretrain_gpt3_175b.sh plan              # one copy of the model: 128 ranks
#   RANKS=1024 examples/pretrain_gpt3_175b.sh plan   # eight copies share the data
# Further flags of phalanx may follow; they win over those below. A plan needs no machine of that
# size, nor the files.
set -euo pipefail

PHALANX=${PHALANX:-phalanx}
RANKS=${RANKS:-128}
DATA_PATH=${DATA_PATH:-my-gpt3_text_document}
VOCAB_FILE=${VOCAB_FILE:-gpt-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt-merges.txt}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt3_175b}
TENSORBOARD_DIR=${TENSORBOARD_DIR:-tensorboard/gpt3_175b}

case ${1:-} in
  plan | pretrain) command=$1; shift ;;
  *) command=pretrain ;;
esac

flags=(
  --nproc "$RANKS"
  --tensor-model-parallel-size 8
  --pipeline-model-parallel-size 16

  --num-layers 96
  --hidden-size 12288
  --num-attention-heads 96
  --seq-length 2048
  --max-position-embeddings 2048
  --init-method-std 0.006
  --micro-batch-size 1
  --global-batch-size 1536
  --rampup-batch-size 16 16 5859375   # 16 more every so often: 1536 after 5,859,375 samples
  --checkpoint-activations

  --train-samples 146484375
  --lr 6.0e-5
  --min-lr 6.0e-6
  --lr-decay-style cosine
  --lr-decay-samples 126953125
  --lr-warmup-samples 183105
  --weight-decay 0.1
  --adam-beta1 0.9
  --adam-beta2 0.95
  --clip-grad 1.0
  --fp16

  --data-path "$DATA_PATH"
  --vocab-file "$VOCAB_FILE"
  --merge-file "$MERGE_FILE"
  --split "98,2,0"

  --save "$CHECKPOINT_PATH"
  --load "$CHECKPOINT_PATH"
  --save-interval 1000
  --log-interval 10
  --eval-interval 1000
  --eval-iters 40
  --tensorboard-dir "$TENSORBOARD_DIR"
)
exec "$PHALANX" "$command" gpt "${flags[@]}" "$@"
