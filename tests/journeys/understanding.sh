#!/usr/bin/env bash
# Somebody wants to see what a run does: its numbers, its report, its plan and its schedule.
source "$(dirname "$0")/journey.bash"

flags="--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 \
--micro-batch-size 2 --lr 1e-3 --train-iters 4 --eval-iters 1 --eval-interval 2 --log-interval 2 --mock-data \
--tokenizer-type NullTokenizer --vocab-size 64"
instead 'gpt ...' "gpt $flags --save RUN --save-interval 4 --timing-log-level 2"
page docs/logging.md "TensorBoard"
expect test -s RUN/metrics.jsonl
expect grep -q forward-compute output
expect ls runs/tb/events.out.tfevents.*

phalanx pretrain gpt $flags --seed 2 --save OTHER --save-interval 4 >output 2>&1
instead 'ssh host' 'sh -c'
page docs/report.md "Reports"
expect grep -q '2 runs compared' compared.html
expect grep -q 'checkpoint saved: RUN/iter_0000004' page.html
expect cmp <(grep -v '^<footer' page.html) <(grep -v '^<footer' RUN/report.html)

page docs/schedules.md "Pipeline schedules"
# What the page shows of it.
expect diff <(sed -n '/^<!-- generated: first/,/^<!-- end/p' "$repository/docs/schedules.md" | grep -v -e '^<' -e '^```') output
