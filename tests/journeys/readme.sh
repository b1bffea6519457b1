#!/usr/bin/env bash
# A newcomer does what the README says, then trains on many ranks, and a BERT and a T5.
source "$(dirname "$0")/journey.bash"

text 60 >book.txt

instead '--vocab-size 8192' '--vocab-size 300'
instead '--num-layers 6 --hidden-size 256 --num-attention-heads 8 --seq-length 256 --max-position-embeddings 256' \
  '--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --log-interval 1'
instead '--micro-batch-size 8 --global-batch-size 16' '--micro-batch-size 2 --global-batch-size 8 --eval-iters 1'
# Each training goes on from the one before.
instead '--train-iters 400 --data-path book_text_document' \
  '--train-iters 8 --exit-interval 2 --data-path book_text_document'
instead '--save-interval 100' '--save-interval 2'
page README.md "Use it"
expect test -s run/iter_0000002/manifest.json
expect test -s run/report.html

page docs/cluster.md "The flags of a layout"
expect test -s run/iter_0000006/manifest.json

instead '--hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 8' \
  '--hidden-size 32 --num-attention-heads 2 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1'
instead '--train-iters 400 --data-path book_text_sentence' '--train-iters 2 --eval-iters 1 --data-path book_text_sentence'
page docs/bert-and-t5.md "From a text to a BERT and a T5"
