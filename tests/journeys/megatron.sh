#!/usr/bin/env bash
# Somebody has launch scripts of Megatron-LM's, and a DeepSpeed file.
source "$(dirname "$0")/journey.bash"

text 60 >book.txt
{
  phalanx train-tokenizer --input book.txt --vocab-size 300 --output tok
  phalanx preprocess-data --input book.txt --split-on-blank-lines --append-eod --output-prefix book \
    --vocab-file tok/vocab.json --merge-file tok/merges.txt
} >output 2>&1
instead '--train-iters 1000' "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 \
--max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 --train-iters 2 --lr-decay-iters 2 --save-interval 2 \
--eval-iters 1 --initial-loss-scale 65536"
page examples/README.md "Examples"
expect test -s run/iter_0000002/manifest.json

flags="--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 \
--lr 1e-3 --train-iters 2 --eval-iters 0 --mock-data --tokenizer-type NullTokenizer --vocab-size 64"
instead FLAGS "$flags"
echo '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}}' >ds_config.json
page docs/deepspeed.md "DeepSpeed files"
expect phalanx plan gpt --yaml-cfg run.yaml --json >plan.json

# Two processes that somebody else starts: the other one beside the page's.
port=$((20000 + RANDOM % 10000))
environment="WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
instead 'MASTER_PORT=29500' "MASTER_PORT=$port"
env $environment RANK=1 LOCAL_RANK=1 phalanx pretrain gpt $flags --micro-batch-size 2 >other 2>&1 &
instead '--vocab-size 64' '--vocab-size 64 --micro-batch-size 2'
page docs/cluster.md "What replaces what"
expect wait $!
page docs/cluster.md "The secret"
expect test "$(stat -c %a%s rdzv.secret)" = 60032
