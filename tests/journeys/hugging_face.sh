#!/usr/bin/env bash
# Somebody trains a published folder further on texts of their own, and gives it back.
source "$(dirname "$0")/journey.bash"

bash "$journeys/small-llama" Llama-3.2-1B
text 60 | as_json_lines >own.jsonl

instead '--seq-length 4096' '--seq-length 32'
instead '--global-batch-size 32' '--global-batch-size 2'
instead '--train-iters 500' '--train-iters 2 --eval-iters 1'
instead '--nproc 4 --tensor-model-parallel-size 4' '--nproc 2 --tensor-model-parallel-size 2'
page docs/llama-and-hugging-face.md "From a published folder and back"
expect test -s Llama-3.2-1B-further/model.safetensors
expect cmp <(jq -S .architectures Llama-3.2-1B/config.json) <(jq -S .architectures Llama-3.2-1B-further/config.json)

# The same by the tutorial.
rm -r llama further Llama-3.2-1B-further own_text_document.*
text 3 >heldout.txt
instead '--seq-length 1024' '--seq-length 32'
instead '--lr-warmup-iters 10 --train-iters 200' '--train-iters 2'
instead '--eval-interval 50 --eval-iters 5' '--eval-iters 1'
instead '--save-interval 50' '--save-interval 2'
instead 'score --load' 'score --stride 32 --load'
page docs/tutorials/from-hugging-face.md "Import it and try it"
page docs/tutorials/from-hugging-face.md "Make a dataset with its tokenizer"
page docs/tutorials/from-hugging-face.md "Will it fit?"
page docs/tutorials/from-hugging-face.md "Train it further"
page docs/tutorials/from-hugging-face.md "Give it back"
expect test -s Llama-3.2-1B-further/tokenizer.json
