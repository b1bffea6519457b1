#include "phalanx/cli/corpus_flags.h"

#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"

namespace phalanx {
namespace {

// At most this many bad lines, and this many warnings, are logged.
constexpr std::int64_t kMostShown = 10;

std::function<void(const std::string&)> shown_first(const char* meaning, const char* rest) {
  return [=, count = std::int64_t{0}](const std::string& problem) mutable {
    ++count;
    if (count <= kMostShown) log_warning("{}{}", problem, meaning);
    if (count == kMostShown) log_warning("{}", rest);
  };
}

}  // namespace

void CorpusFlags::add_to(FlagSet& flags) {
  flags.section("Input");
  flags.add({.name = "--input",
             .help = "Files or patterns of names; - is standard input; gzip and zstd are read",
             .value_name = "FILE",
             .required = true},
            &inputs_);
  flags.add(
      {.name = "--format",
       .help = "Default: told by the content of each file, which its name must not contradict",
       .choices = "text jsonl"},
      &format_);
  flags.add(
      {.name = "--json-keys", .help = "Keys of a JSON line (default: text)", .value_name = "KEY"},
      &keys_);
  flags.add({.name = "--skip-bad-lines",
             .help = "Leave out up to N lines that are no JSON or lack a key",
             .range = at_least(0)},
            &options_.skip_bad_lines);
  flags.add({.name = "--split-on-blank-lines",
             .help = "Text: a document ends at a blank line (default: with its file)"},
            &options_.split_on_blank_lines);
  flags.add({.name = "--document-separator", .help = "Text: a document ends at this string"},
            &options_.document_separator);
  flags.add({.name = "--max-document-bytes",
             .help = "A longer line is a bad line, a longer text an error",
             .range = from_to(1, static_cast<double>(std::int64_t{1} << 40))},
            &options_.max_document_bytes);
}

void CorpusFlags::complete(std::int64_t workers) {
  if (format_ == "text") options_.format = CorpusFormat::kText;
  if (format_ == "jsonl") options_.format = CorpusFormat::kJsonLines;
  if (!keys_.empty()) options_.json_keys = keys_;
  options_.inputs = matching_files(inputs_);
  options_.workers = workers > 0 ? static_cast<int>(workers) : usable_cores().count;
  options_.skipped = shown_first(": left out", "further lines are left out without a word");
  options_.warned = shown_first("", "further files are not told of");
}

}  // namespace phalanx
