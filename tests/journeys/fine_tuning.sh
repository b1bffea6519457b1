#!/usr/bin/env bash
# Somebody has a trained GPT, BERT and T5: how good are they, what do they write, and can the BERT tell classes apart?
source "$(dirname "$0")/journey.bash"

text 60 >book.txt
small='--num-layers 2 --hidden-size 32 --num-attention-heads 2 --max-position-embeddings 64 --micro-batch-size 2
  --lr 1e-3 --train-iters 2 --save-interval 2 --eval-iters 1 --log-interval 1'
{
  phalanx train-tokenizer --input book.txt --vocab-size 300 --output .
  phalanx preprocess-data --input book.txt --split-on-blank-lines --append-eod --output-prefix gpt \
    --vocab-file vocab.json --merge-file merges.txt
  phalanx pretrain gpt $small --seq-length 64 --data-path gpt_text_document --vocab-file vocab.json \
    --merge-file merges.txt --save gpt
  phalanx train-tokenizer --type wordpiece --lower-case --input book.txt --vocab-size 300 --output words
  words='--tokenizer-type BertWordPieceLowerCase --vocab-file words/vocab.txt'
  phalanx preprocess-data --input book.txt --split-on-blank-lines --split-sentences --output-prefix words $words
  phalanx pretrain bert $small --seq-length 64 --data-path words_text_sentence $words --save BERT
  phalanx pretrain t5 $small --seq-length 64 --decoder-seq-length 32 --data-path words_text_sentence $words \
    --vocab-extra-ids 100 --save t5
} >output 2>&1 || { cat output; exit 1; }

head -c 60 book.txt | tee wiki.test.tokens >text.txt
echo '{"text": "And the 3 said unto the 2, behold."}' >lambada_test.jsonl
ln -s gpt RUN
page docs/generating.md "Text from a model"
page docs/evaluating.md "Evaluating a checkpoint"
page docs/evaluating.md "For scripts"
page docs/evaluating.md "Benchmarks"
for end in bin idx; do cp "gpt_text_document.$end" "DATA.$end"; done
instead '--split 969,30,1 --seq-length 1024 --train-samples A --valid-samples B' \
  '--split 90,5,5 --seq-length 64 --train-samples 4 --valid-samples 4'
instead '--test-samples C' '--test-samples 4'
page docs/evaluating.md "What training's losses are"
page docs/evaluating.md "With llm.c as a second opinion"
# Every weight that came back is one that was there.
expect test -z "$(comm -13 <(phalanx checkpoint digest RUN | sort) <(phalanx checkpoint digest BACK/checkpoint |
  grep -v '^iteration' | sort))"

rm RUN && ln -s t5 RUN
page docs/evaluating.md "A T5"

rm RUN
printf 'And the 3 said\tunto the 2\t%s\n' no yes no yes no yes no yes | tee train.tsv >dev.tsv
instead '--epochs 3 --micro-batch-size 16' '--epochs 2 --micro-batch-size 2'
printf 'And the 3 said\tunto the 2\n' >lines.txt
page docs/evaluating.md "Classification"
expect grep -qx 'no\|yes' labels.txt
expect grep -q '^8 texts, accuracy' output
