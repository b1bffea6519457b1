# Groups of sources that one compiler run can read together, as if a file included all of them: no two have a name for
# themselves, in an unnamed namespace or as a macro, that is the same. Reads lines that end in a source's path, writes
# each behind the number of its group. -v most=N: so many files at most, -v most_bytes=N: unless it is one alone.
# -v same_meaning=1: and each means what it means alone, no such name is a word of another. (It would hide what the other
# means by it, without a message.)
function clashes(group,  name) {
  for (name in names) {
    # The same alias may stand in all of them.
    if ((group, name) in group_names) {
      if (group_names[group, name] != names[name]) return 1
    } else if (same_meaning && (group, name) in group_words) {
      return 1
    }
  }
  if (!same_meaning) return 0
  for (name in words) if (!(name in names) && (group, name) in group_names) return 1
  return 0
}
{
  split("", names)
  split("", words)
  hidden = 0
  bytes = 0
  while ((getline line < $NF) > 0) {
    bytes += length(line) + 1
    if (line ~ /^namespace {/) hidden = 1
    if (line ~ /^}  \/\/ namespace$/) hidden = 0
    sub(/\/\/.*/, "", line)
    if (line ~ /^ *#include/) continue
    count = split(line, found, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= count; ++i) words[found[i]]
    if (line ~ /^#define /) names[found[3]] = $NF
    if (!hidden || line !~ /^[A-Za-z]/ || line ~ /^(namespace|template|static_assert)/) continue
    meaning = line ~ /^using / ? line : $NF
    sub(/^(enum )?(struct|class) /, "", line)
    sub(/^using /, "", line)
    sub(/( : |[;=({[]).*/, "", line)
    sub(/( final)? *$/, "", line)
    sub(/.*[^A-Za-z0-9_]/, "", line)
    # Every test is called so.
    if (line != "" && line !~ /^(TEST|TEST_F|TEST_P|TYPED_TEST|INSTANTIATE_[A-Z_]*)$/) names[line] = meaning
  }
  close($NF)
  delete words[""]
  kind = $NF ~ /^tests\//
  for (group = 0; ; ++group) {
    if (!size[group]) break
    if (size[group] >= most || (most_bytes && size_bytes[group] + bytes > most_bytes)) continue
    if (kinds[group] == kind && !clashes(group)) break
  }
  ++size[group]
  size_bytes[group] += bytes
  kinds[group] = kind
  for (name in names) group_names[group, name] = names[name]
  for (name in words) group_words[group, name]
  print group, $0
}
