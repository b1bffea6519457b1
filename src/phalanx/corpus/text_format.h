#pragma once
// What a file of a corpus holds: told by its first bytes, and by its name where these leave it
// open. Names and contents that contradict each other are an error, not a guess.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/corpus/documents.h"

namespace phalanx {

// So much of a text is looked at.
inline constexpr std::size_t kCorpusHeadBytes = std::size_t{1} << 16;

enum class CorpusContent {
  kBlank,         // nothing, or white space alone
  kText,          // few lines are JSON objects, and not the first one
  kJsonLines,     // most lines are JSON objects, and the first one is
  kMixed,         // neither
  kJsonDocument,  // a JSON object over several lines, or a list of objects
};

// What the beginning of a text shows.
struct CorpusHead {
  CorpusContent content = CorpusContent::kBlank;
  std::size_t mark_bytes = 0;         // a byte order mark, which is no text
  bool ends_lines_by_return = false;  // several lines, all of which end with \r alone
  bool begins_json = false;           // the first character that is no blank is { or [
};

// `head`: the first kCorpusHeadBytes of a text, or all of it. DataError, beginning with `name`, for
// what is no text in UTF-8: UTF-16 and UTF-32, archives and compressed data that is not read.
CorpusHead look_at_corpus(std::string_view head, const std::string& name);

// By the end of its name, behind which .gz, .zst and .zstd may follow: JSON lines for .json, .jsonl
// and .ndjson, text for .txt, .text and .md, nothing for others and for standard input.
std::optional<CorpusFormat> format_of_corpus_name(const std::string& path);

// ConfigError, which names --format, where name and content disagree or leave it open; DataError
// for a JSON document that is no JSON lines. `path` as CorpusInput takes it.
CorpusFormat format_of_corpus(const std::string& path, const CorpusHead& head);

// DataError where documents end with lines, and these with carriage returns alone.
void check_line_ends(const CorpusHead& head, const CorpusRules& rules, const std::string& name);

}  // namespace phalanx
