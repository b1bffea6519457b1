# What journeys share: they run the commands of a page as they stand there, in an empty directory in which `phalanx`
# is the program that was built. A page's RUN, DATA or Llama-3.2-1B is a file or directory of that name.
#
#   instead OLD NEW     in the commands of the pages, from here on; never used, it ends the journey with an error
#   page FILE HEADING   runs the commands of a section, one after the other, in this shell; what `skipped` names is not run
#   expect COMMAND...   of what the commands should have made
set -euo pipefail
journeys=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$journeys/../.." && pwd)
: "${PHALANX:?is the program}"

directory=$(mktemp -d)
cd "$directory"
mkdir -p bin build
ln -s "$(dirname "$PHALANX")" build/release
ln -s "$PHALANX" bin/phalanx
ln -s "$repository/examples" examples
PATH=$directory/bin:$PATH
unset PHALANX
olds=() news=() uses=()

instead() {
  olds+=("$1") news+=("$2") uses+=(0)
}

# The commands that no journey runs: FILE | what they begin with | why.
is_skipped() { # FILE COMMAND
  local file begin
  while IFS='|' read -r file begin _; do
    file=${file%"${file##*[! ]}"} begin=${begin# } begin=${begin%"${begin##*[! ]}"}
    [[ $file == "$1" && $2 == "$begin"* ]] && return 0
  done < <(grep -v -e '^#' -e '^$' "$journeys/skipped")
  return 1
}

page() { # FILE HEADING
  local line title command i status ran=0
  while IFS=$'\t' read -r -d '' line title command <&3; do
    ((++ran))
    is_skipped "$1" "$command" && continue
    for i in "${!olds[@]}"; do
      [[ $command == *"${olds[i]}"* ]] || continue
      command=${command//"${olds[i]}"/"${news[i]}"} uses[i]=1
    done
    status=0
    eval "$command" >output 2>&1 </dev/null 3<&- || status=$?
    printf '%s:%s: %s\n' "$1" "$line" "$command"
    if ((status != 0)); then
      cat output
      echo "$1:$line: exit status $status of: $command" >&2
      exit 1
    fi
  done 3< <(awk -v heading="$2" -f "$journeys/commands" "$repository/$1")
  ((ran > 0)) || { echo "$1 has no commands below the heading \"$2\"" >&2; exit 1; }
}

expect() {
  "$@" || { echo "after the page's commands this fails: $*" >&2; exit 1; }
}

leave() {
  local status=$? i
  if ((status == 0)); then
    for i in "${!olds[@]}"; do
      ((uses[i])) && continue
      echo "no command of the journey has \"${olds[i]}\": take the substitution out" >&2
      status=1
    done
  fi
  kill $(jobs -p) 2>/dev/null || true
  cd / && rm -rf "$directory"
  exit "$status"
}
trap leave EXIT

# Paragraphs, one a line of JSON.
as_json_lines() {
  awk -v RS= '{ gsub(/\n/, " "); printf "{\"text\": \"%s\"}\n", $0 }'
}

# A text of small words; `text 60 >FILE`: so many paragraphs.
text() {
  awk -v count="$1" 'BEGIN {
    for (i = 0; i < count; ++i)
      printf "And the %d said unto the %d, behold. It came to pass on day %d. So it was.\n\n", i % 7, i % 5, i % 11 }'
}
