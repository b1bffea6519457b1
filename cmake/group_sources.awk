# Groups of sources that one compiler run can read together, as if a file included all of them. Reads lines that end in a
# source's path; writes each behind the number of its group. -v most=N: so many files at most, -v most_bytes=N: unless it is
# one alone.
# A source's private names are those in an unnamed namespace, and its macros. Two sources of a group have none in common.
# -v rename=1: or one of them gets another name: behind the line stand the private names that the source has to change. And
# no source uses a word that is a private name of another, which would hide what the first means by it without a message.

# Reads the words of a header that the source includes.
function read_header(include,  header, line, found, i) {
  split(include, found, "\"")
  header = found[2]
  if (header ~ /^phalanx\//) header = "src/" header
  else if (header !~ /^tests\//) header = substr(path, 1, match(path, /[^\/]*$/) - 1) header
  headers[header]
  if (header in is_read) return
  is_read[header]
  while ((getline line < header) > 0) {
    sub(/\/\/.*/, "", line)
    for (i = split(line, found, /[^A-Za-z0-9_]+/); i > 0; --i) header_words[header, found[i]]
  }
  close(header)
}
# Macros of GoogleTest have these words.
function can_rename(file, name) { return rename && !((file, name) in fixed) && name !~ /^(value|type|Message)$/ }
# Whether the source fits into a group; the names that change are then in new_names.
function fits(group,  name) {
  split("", new_names)
  for (name in names) {
    if ((group, name) in owner) {
      # The same alias may stand in all of them.
      if (meaning_of[group, name] == names[name]) continue
      if (can_rename(path, name)) new_names[path, name]
      else if (can_rename(owner[group, name], name)) new_names[owner[group, name], name]
      else return 0
    } else if (rename && (group, name) in group_words) {
      if (!can_rename(path, name)) return 0
      new_names[path, name]
    }
  }
  if (!rename) return 1
  for (name in words) {
    if (name in names || !((group, name) in owner)) continue
    if (!can_rename(owner[group, name], name)) return 0
    new_names[owner[group, name], name]
  }
  return 1
}
function add_to(group,  name, key, parts) {
  ++size[group]
  size_bytes[group] += bytes
  kinds[group] = kind
  for (key in new_names) {
    split(key, parts, SUBSEP)
    renamed[key]
    changes[parts[1]] = changes[parts[1]] " " parts[2]
    if (parts[1] != path) delete owner[group, parts[2]]
  }
  for (name in words) if (!((path, name) in renamed)) group_words[group, name]
  for (name in names) {
    if ((path, name) in renamed) continue
    owner[group, name] = path
    meaning_of[group, name] = names[name]
  }
}
{
  split("", names)
  split("", words)
  split("", headers)
  path = $NF
  hidden = in_text = 0
  bytes = 0
  while ((getline line < path) > 0) {
    bytes += length(line) + 1
    # Texts of several lines are no code.
    if (in_text) {
      in_text = line !~ /\)[a-z]*"/
      continue
    }
    in_text = line ~ /R"[a-z]*\(/ && line !~ /\)[a-z]*"/
    if (line ~ /^namespace {/) hidden = 1
    if (line ~ /^}  \/\/ namespace$/) hidden = 0
    sub(/\/\/.*/, "", line)
    if (line ~ /^ *#include/) {
      if (rename && line ~ /"/) read_header(line)
      continue
    }
    # A word after `.`, `->` or `::` belongs to a member or another namespace. A private name spelled like one must not
    # change.
    for (rest = line; match(rest, /(\.|->|::)[A-Za-z0-9_]+/); rest = substr(rest, RSTART + RLENGTH)) {
      name = substr(rest, RSTART, RLENGTH)
      sub(/^[^A-Za-z0-9_]+/, "", name)
      fixed[path, name]
    }
    rest = line
    gsub(/(\.|->|::)[A-Za-z0-9_]+/, " ", rest)
    count = split(rest, found, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= count; ++i) words[found[i]]
    if (line ~ /^#define /) {
      names[found[3]] = path
      fixed[path, found[3]]
    }
    if (!hidden || line !~ /^[A-Za-z]/ || line ~ /^(namespace|template|static_assert)/) continue
    meaning = line ~ /^using / ? line : path
    is_fixed = line ~ /^using enum /
    sub(/^(enum )?(struct|class) /, "", line)
    sub(/^using /, "", line)
    sub(/( : |[;=({[]).*/, "", line)
    sub(/( final)? *$/, "", line)
    sub(/.*[^A-Za-z0-9_]/, "", line)
    # Every test is called so.
    if (line != "" && line !~ /^(void|TEST|TEST_F|TEST_P|TYPED_TEST|INSTANTIATE_[A-Z_]*)$/) names[line] = meaning
    if (is_fixed) fixed[path, line]
  }
  close(path)
  delete words[""]
  # A private name that a header also has may be an overload, so it keeps its name.
  for (header in headers) for (name in names) if ((header, name) in header_words) fixed[path, name]
  kind = path ~ /^tests\//
  for (group = 0; size[group]; ++group) {
    if (size[group] >= most || (most_bytes && size_bytes[group] + bytes > most_bytes)) continue
    if (kinds[group] == kind && fits(group)) break
  }
  if (!size[group]) split("", new_names)
  add_to(group)
  group_of[NR] = group
  line_of[NR] = $0
  path_of[NR] = path
}
END { for (i = 1; i <= NR; ++i) print group_of[i], line_of[i] changes[path_of[i]] }
