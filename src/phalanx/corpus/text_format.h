#pragma once
// The formats of corpus files. A file's format is recognised by its first bytes, and by its name if
// these leave it open. If name and content contradict each other, that is an error.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace phalanx {

enum class CorpusFormat { kText, kJsonLines };

// How much of a text is looked at.
inline constexpr std::size_t kCorpusHeadBytes = std::size_t{1} << 16;

enum class CorpusContent {
  kBlank,         // nothing, or white space alone
  kText,          // few lines are JSON objects, and not the first one
  kJsonLines,     // most lines are JSON objects, and the first one is
  kMixed,         // neither
  kJsonDocument,  // a JSON object over several lines, or a list of objects
};

// What the beginning of a text tells about it.
struct CorpusHead {
  CorpusContent content = CorpusContent::kBlank;
  std::size_t mark_bytes = 0;         // bytes of a byte order mark
  bool ends_lines_by_return = false;  // several lines, all of which end with \r alone
  bool begins_json = false;           // the first character that is not blank is { or [
};

// `head`: the first kCorpusHeadBytes of a text, or all of it. DataError, beginning with `name`, for
// anything but UTF-8 text: UTF-16, UTF-32, archives, and compressed data of other kinds than gzip
// and zstd.
CorpusHead look_at_corpus(std::string_view head, const std::string& name);

// The format that a file's name tells (before .gz, .zst or .zstd): JSON lines for .json, .jsonl and
// .ndjson, text for .txt, .text and .md, nothing for others and for standard input.
std::optional<CorpusFormat> format_of_corpus_name(const std::string& path);

// The format of a file. ConfigError that names --format if name and content disagree or leave it
// open; DataError for JSON that is not JSON lines. `path` is as for CorpusInput.
CorpusFormat format_of_corpus(const std::string& path, const CorpusHead& head);

}  // namespace phalanx
