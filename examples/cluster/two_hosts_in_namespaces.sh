#!/usr/bin/env bash
# Two hosts on one machine: two network namespaces and a cable between them. Trains a small GPT across them, with
# everything that two real hosts would do: TCP, a secret, two launchers. Removes all of it at the end.
#   sudo PHALANX=build/release/phalanx examples/cluster/two_hosts_in_namespaces.sh
# Needs: root, ip (iproute2). Without DATA_PATH a small text is made. To see what a cut cable does, in another terminal:
#   sudo ip netns exec phalanx_PID_0 ip link set cable0 down
set -euo pipefail
source "$(dirname "$0")/common.sh"

RANKS=2 TP=${TP:-1} PP=${PP:-2}
: "${LAYERS:=2}" "${HIDDEN:=64}" "${HEADS:=2}" "${SEQUENCE:=64}" "${MICROBATCH:=2}" "${BATCH:=8}"
: "${ITERATIONS:=20}" "${LOG_INTERVAL:=5}" "${EVAL_ITERATIONS:=0}"
if [ "${1:-}" = plan ]; then
  START=("$PHALANX")
  make_command "$@"
  exec "${COMMAND[@]}"
fi

work=$(mktemp -d)
hosts=("phalanx_$$_0" "phalanx_$$_1")
other=
clean_up() {
  [ -z "$other" ] || kill "$other" 2>/dev/null || true
  wait
  for host in "${hosts[@]}"; do ip netns delete "$host" 2>/dev/null || true; done # and with them the cable
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ ! -f "$DATA_PATH.bin" ]; then
  for i in $(seq 400); do printf 'And the %d said unto the %d, behold.\n\n' $((i % 7)) $((i % 5)); done >"$work/text"
  "$PHALANX" train-tokenizer --input "$work/text" --vocab-size 300 --output "$work/tokenizer"
  VOCAB_FILE=$work/tokenizer/vocab.json MERGE_FILE=$work/tokenizer/merges.txt
  "$PHALANX" preprocess-data --input "$work/text" --split-on-blank-lines --append-eod --output-prefix "$work/data" \
    --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE"
  DATA_PATH=$work/data_text_document
  CHECKPOINT_PATH=$work/checkpoint
fi

for i in 0 1; do
  ip netns add "${hosts[i]}"
  ip -n "${hosts[i]}" link set lo up
done
ip link add cable0 netns "${hosts[0]}" type veth peer name cable1 netns "${hosts[1]}"
for i in 0 1; do
  ip -n "${hosts[i]}" address add "10.11.12.$((i + 1))/24" dev "cable$i"
  ip -n "${hosts[i]}" link set "cable$i" up
done
for i in 0 1; do # a link tells a moment later that it is up
  until ip -n "${hosts[i]}" -brief link show "cable$i" | grep -q ' UP '; do sleep 0.1; done
done
(umask 077 && head -c 32 /dev/urandom >"$work/secret")

command_of_host() {
  START=(ip netns exec "${hosts[$1]}" "$PHALANX" launch --nnodes 2 --node-rank "$1" --nproc-per-node 1
    --master-addr 10.11.12.1 --rdzv-secret-file "$work/secret" --)
  shift
  make_command "$@"
}
command_of_host 1 "$@"
"${COMMAND[@]}" &
other=$!
command_of_host 0 "$@"
status=0
"${COMMAND[@]}" || status=$?
if [ "$status" = 0 ]; then wait "$other" || status=$?; fi # else it is ended, should it still be there
exit "$status"
