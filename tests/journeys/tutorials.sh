#!/usr/bin/env bash
# A newcomer follows the tutorials: a first model, a script of Megatron-LM's, a plan of a large model.
source "$(dirname "$0")/journey.bash"

text 60 >book.txt
instead '--vocab-size 4096' '--vocab-size 300'
instead '--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128' \
  '--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32'
instead '--train-iters 200 --log-interval 50' '--train-iters 4 --log-interval 1'
instead '--eval-interval 100 --eval-iters 5' '--eval-interval 2 --eval-iters 1'
instead '--save-interval 100' '--save-interval 2'
page docs/tutorials/first-model.md "A tokenizer and a dataset"
page docs/tutorials/first-model.md "A plan"
expect grep -q '  total  ' output
page docs/tutorials/first-model.md "Train"
expect grep -q 'validation loss at iteration 4 on validation set' output
# What lies in the save directory is what the page lists.
for file in report.html metrics.jsonl events.jsonl iter_0000002 iter_0000004/{model,optimizer}.safetensors \
  iter_0000004/{manifest,vocab}.json iter_0000004/merges.txt latest_checkpointed_iteration.txt .lock .job; do
  expect test -s "run/$file"
done
page docs/tutorials/first-model.md "Use it"
page docs/tutorials/two-hosts.md "Two machines"

for end in bin idx; do cp "book_text_document.$end" "my_text_document.$end"; done
rm -r run
page docs/tutorials/from-megatron.md "See what becomes of the flags"
expect grep -q '^--checkpoint-activations is now --recompute-granularity full' output
page docs/tutorials/from-megatron.md "Take a flag out"
page docs/tutorials/from-megatron.md "Where the data is found"
instead '--fp16=false --train-iters 10 --lr-decay-iters 10 --save-interval 10' "--fp16=false --num-layers 2 --hidden-size 32 \
--num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 --train-iters 2 \
--lr-decay-iters 2 --save-interval 2 --eval-iters 1"
page docs/tutorials/from-megatron.md "Run it"
expect test -s run/iter_0000002/manifest.json

page docs/tutorials/plan-before-you-rent.md "One model, one layout"
expect grep -q '^8,030,261,248 parameters' output
page docs/tutorials/plan-before-you-rent.md "How long it takes"
expect grep -q '^a step on NVIDIA DGX H100, 8 devices' output
expect test -s step.svg
page docs/tutorials/plan-before-you-rent.md "Layouts beside each other"
expect test -s layouts.svg
