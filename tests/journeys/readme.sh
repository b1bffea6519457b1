#!/usr/bin/env bash
# A newcomer goes through the README from its top to its end.
source "$(dirname "$0")/journey.bash"

text 60 >book.txt
as_json_lines <book.txt | tee web.jsonl.zst >own.jsonl

instead '--vocab-size 8192' '--vocab-size 300'
instead '--num-layers 6 --hidden-size 256 --num-attention-heads 8 --seq-length 256 --max-position-embeddings 256' \
  '--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --log-interval 1'
instead '--micro-batch-size 8 --global-batch-size 16' '--micro-batch-size 2 --global-batch-size 8 --eval-iters 1'
# Each training of the page goes on from the one before.
instead '--train-iters 400 --data-path book_text_document' \
  '--train-iters 8 --exit-interval 2 --data-path book_text_document'
instead '--save-interval 100' '--save-interval 2'
page README.md "Use it"
expect test -s run/iter_0000004/manifest.json
expect test -s run/report.html

instead '--hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 8' \
  '--hidden-size 32 --num-attention-heads 2 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1'
instead '--train-iters 400 --data-path book_text_sentence' '--train-iters 2 --eval-iters 1 --data-path book_text_sentence'
page README.md "BERT, T5, and a family of your own"

instead '--seq-length 256' '--seq-length 16'
instead '--train-samples 6400' '--train-samples 64'
page README.md "Data"

instead '--num-layers 8' '--num-layers 8 --exit-interval 1'
page README.md "Many ranks"
expect test -s run/iter_0000006/manifest.json
page README.md "Pipelines are programs"
expect test -s timeline.svg

# What `git clone` of a published model would have brought.
bash "$journeys/small-llama" Llama-3.2-1B
instead '--seq-length 4096' '--seq-length 32'
instead '--global-batch-size 32' '--global-batch-size 2'
instead '--train-iters 500' '--train-iters 2'
page README.md "Llama, and Hugging Face's folders"
expect test -s Llama-3.2-1B-further/model.safetensors
