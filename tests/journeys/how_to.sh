#!/usr/bin/env bash
# Somebody has a problem with a run, and does what the page of that problem says.
source "$(dirname "$0")/journey.bash"

text 400 >book.txt
as_json_lines <book.txt >part.jsonl
phalanx train-tokenizer --input book.txt --vocab-size 300 --output tok 2>output
M="--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 \
--global-batch-size 8 --lr 1e-3 --train-iters 20 --log-interval 5 --eval-iters 1 --threads-per-rank 1 \
--vocab-file tok/vocab.json --merge-file tok/merges.txt"
page docs/how-to/add-a-dataset.md "Add a dataset"
page docs/how-to/add-a-dataset.md "What form has the text?"
page docs/how-to/add-a-dataset.md "Look at it"
page docs/how-to/add-a-dataset.md "Use it"
M+=" --data-path book_text_document"

page docs/how-to/change-the-layout.md "Change the layout"
expect grep -qx 'the tensors are equal' output
page docs/how-to/change-the-layout.md "Which layout?"

cp -r one run
page docs/how-to/train-longer.md "Train longer"
expect test -s run/iter_0000040/manifest.json
expect test -s second/iter_0000060/manifest.json
page docs/how-to/train-longer.md "Which samples come"
expect test -s more/iter_0000060/manifest.json

M=${M/--train-iters 20/--train-iters 40}
# Killed, and the newest checkpoint damaged.
page docs/how-to/recover.md "It was killed, or the machine went down"
truncate -s -100 run/iter_0000040/model.safetensors
phalanx pretrain gpt $M --save run --load run --save-interval 10 >output 2>&1
expect grep -q 'bytes, the manifest says .*; taking run/iter_0000030' output
expect test -d run/abandoned-1/iter_0000040
instead '--ckpt-step 10' '--ckpt-step 30'
page docs/how-to/recover.md "To go back on purpose"
page docs/how-to/my-run-diverges.md "The loss is NaN or infinite"
page docs/how-to/my-run-diverges.md "The loss rises, or jumps"
page docs/how-to/my-run-diverges.md "Do the copies agree?"

page docs/how-to/my-run-hangs.md "My run hangs"
# A rank that waits for one that does not come.
env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000)) \
  phalanx pretrain gpt $M >log 2>&1 &
pid=$!
while kill -0 "$pid" && ! grep -q 'missing rank 1' log; do sleep 0.1; done
instead PID "$pid"
page docs/how-to/my-run-hangs.md "What waits"
while kill -0 "$pid" && ! grep -q 'end of the stacks' log; do sleep 0.1; done
expect grep -q 'end of the stacks' log
kill -TERM "$pid"
wait "$pid" || expect test "$?" = 85
rm -r run
M=${M/--train-iters 40/--train-iters 4} # many ranks on few cores wait by computing
page docs/how-to/my-run-hangs.md "Let the program find it"

page docs/how-to/is-slow.md "Where does the time go?"
page docs/how-to/is-slow.md "Does something else use the cores?"
rm -r run
page docs/how-to/is-slow.md "Which part of a step?"
expect test -s step.svg
instead 'bench disk /nvme' 'bench disk . --size 4 --seconds 0.1'
page docs/how-to/does-not-fit.md "What helps, and how much"
expect test -s fits.svg
