#!/usr/bin/env bash
# Somebody has text files, and wants to see what a model will read of them.
source "$(dirname "$0")/journey.bash"

text 60 >book.txt
as_json_lines <book.txt | gzip >part.jsonl.gz
instead '--vocab-size 8192' '--vocab-size 300'
page docs/data.md "Making a dataset"
expect phalanx dataset check --data-path web_text_document >output

for end in bin idx; do
  cp "web_text_document.$end" "wiki.$end"
  cp "web_text_document.$end" "books.$end"
done
instead '--seq-length 1024 --train-samples 8000' '--seq-length 16 --train-samples 80'
page docs/data.md "Which sample comes when"

# The two documents of the page, and a vocabulary of their words.
grep '^    {"text": ' "$repository/docs/bert-and-t5.md" | sed 's/^ *//' >story.jsonl
{
  printf '[%s]\n' PAD UNK CLS SEP MASK BOS EOS
  tr 'A-Z' 'a-z' <story.jsonl | sed 's/.*: "//; s/"}//; s/\./ ./g' | tr ' ' '\n' | sort -u | grep .
} >vocab.txt
page docs/bert-and-t5.md "Making a dataset"
page docs/bert-and-t5.md "What is in a sample"
expect test "$(jq '.samples | length' output)" = 2
