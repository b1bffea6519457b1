#include "phalanx/corpus/text_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>

#include "phalanx/base/error.h"
#include "phalanx/corpus/input_stream.h"

namespace phalanx {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::string_view kMark = "\xef\xbb\xbf";
// Enough lines to tell a file with a few bad lines from one without objects.
constexpr int kLinesLookedAt = 64;

std::string_view without_outer_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view without_first_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

// Takes a character and the blanks behind it.
bool take(char c, std::string_view& text) {
  if (!text.starts_with(c)) return false;
  text = without_first_blanks(text.substr(1));
  return true;
}

// {"key": as far as the text goes. Not a full parser: JSON lines with bad bytes and the like are
// still JSON lines.
bool begins_object(std::string_view text) {
  if (!take('{', text)) return false;
  if (!text.starts_with('"')) return false;
  std::size_t at = 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  if (at >= text.size()) return true;
  text = without_first_blanks(text.substr(at + 1));
  return text.empty() || text.front() == ':';
}

bool is_object(std::string_view line) {
  line = without_outer_blanks(line);
  return line == "{}" || (begins_object(line) && line.ends_with('}'));
}

// The lines that are not blank.
struct Lines {
  int count = 0;
  int objects = 0;
  bool first_is_object = false;
  bool second_continues = false;  // it does not begin an object
};

Lines count_lines(std::string_view head, char line_end, bool is_cut) {
  Lines lines;
  while (!head.empty() && lines.count < kLinesLookedAt) {
    const auto end = head.find(line_end);
    const auto line = without_outer_blanks(head.substr(0, end));
    const bool is_cut_line = is_cut && end == std::string_view::npos;
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
    // The last line may be cut: it counts only if there is no other.
    if (line.empty() || (is_cut_line && lines.count > 0)) continue;
    const bool object = is_cut_line ? begins_object(line) : is_object(line);
    lines.first_is_object = lines.first_is_object || (lines.count == 0 && object);
    lines.second_continues = lines.second_continues || (lines.count == 1 && line.front() != '{');
    ++lines.count;
    lines.objects += object ? 1 : 0;
  }
  return lines;
}

CorpusContent content_of(std::string_view head, const Lines& lines) {
  if (lines.count == 0) return CorpusContent::kBlank;
  const bool are_most = 2 * lines.objects >= lines.count;
  if (are_most) return lines.first_is_object ? CorpusContent::kJsonLines : CorpusContent::kMixed;
  if (lines.first_is_object) return CorpusContent::kMixed;
  std::string_view rest = without_first_blanks(head);
  const bool is_list = take('[', rest);
  const bool is_document = begins_object(rest) && (is_list || lines.second_continues);
  return is_document ? CorpusContent::kJsonDocument : CorpusContent::kText;
}

// Half of the bytes of text in Latin letters are zero, all at even or all at odd places.
bool is_utf16_without_mark(std::string_view head) {
  constexpr std::size_t kBytes = 4096;
  constexpr std::size_t kLeastPairs = 4;
  const std::size_t pairs = std::min(head.size(), kBytes) / 2;
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < 2 * pairs; ++i) zeros[i % 2] += head[i] == '\0' ? 1 : 0;
  const auto [few, many] = std::minmax(zeros[0], zeros[1]);
  return pairs >= kLeastPairs && many > pairs / 2 && few <= pairs / 20;
}

// Formats that are not text, by their first bytes.
struct Foreign {
  std::string_view magic;
  std::size_t at;
  std::string_view what;
  std::string_view remedy;
};
constexpr std::string_view kConvert = "convert it to UTF-8, as iconv does";
constexpr std::string_view kUnpack = "unpack it (of compressed data, gzip and zstd are read)";
constexpr std::string_view kExtract = "extract its files";
constexpr std::string_view kJson = "write its rows as JSON lines";
constexpr std::array<Foreign, 13> kForeign = {{
    {std::string_view("\xff\xfe\0\0", 4), 0, "UTF-32 by its byte order mark", kConvert},
    {std::string_view("\0\0\xfe\xff", 4), 0, "UTF-32 by its byte order mark", kConvert},
    {"\xff\xfe", 0, "UTF-16 by its byte order mark", kConvert},
    {"\xfe\xff", 0, "UTF-16 by its byte order mark", kConvert},
    {"\x31\x41\x59\x26\x53\x59", 4, "bzip2 data", kUnpack},
    {std::string_view("\xfd"
                      "7zXZ\0",
                      6),
     0, "xz data", kUnpack},
    {"\x04\x22\x4d\x18", 0, "lz4 data", kUnpack},
    {"\x1f\x8b\x08", 0, "gzip data within compressed data", kUnpack},
    {"\x28\xb5\x2f\xfd", 0, "zstd data within compressed data", kUnpack},
    {"PK\x03\x04", 0, "a zip archive", kExtract},
    {"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", kExtract},
    {"ustar", 257, "a tar archive", kExtract},
    {"PAR1\x15", 0, "a Parquet file", kJson},
}};

void check_is_text(std::string_view head, const std::string& name) {
  for (const Foreign& foreign : kForeign) {
    if (head.size() < foreign.at || !head.substr(foreign.at).starts_with(foreign.magic)) continue;
    throw DataError("{}: {}: {}", name, foreign.what, foreign.remedy);
  }
  if (is_utf16_without_mark(head)) {
    throw DataError("{}: UTF-16, for every other byte is zero: {}", name, kConvert);
  }
}

}  // namespace

CorpusHead look_at_corpus(std::string_view head, const std::string& name) {
  check_is_text(head, name);
  const bool is_cut = head.size() >= kCorpusHeadBytes;
  CorpusHead found;
  if (head.starts_with(kMark)) found.mark_bytes = kMark.size();
  head.remove_prefix(found.mark_bytes);
  const bool has_feeds = head.find('\n') != std::string_view::npos;
  const Lines lines = count_lines(head, has_feeds ? '\n' : '\r', is_cut);
  found.ends_lines_by_return = !has_feeds && lines.count > 1;
  found.content = content_of(head, lines);
  const std::string_view text = without_first_blanks(head);
  found.begins_json = text.starts_with('{') || text.starts_with('[');
  return found;
}

std::optional<CorpusFormat> format_of_corpus_name(const std::string& path) {
  if (path == kStandardInput) return std::nullopt;
  std::filesystem::path name(path);
  for (const char* compressed : {".gz", ".zst", ".zstd"}) {
    if (name.extension() == compressed) name.replace_extension();
  }
  const auto is_one_of = [extension = name.extension().string()](auto... names) {
    return ((extension == names) || ...);
  };
  if (is_one_of(".json", ".jsonl", ".ndjson")) return CorpusFormat::kJsonLines;
  if (is_one_of(".txt", ".text", ".md")) return CorpusFormat::kText;
  return std::nullopt;
}

CorpusFormat format_of_corpus(const std::string& path, const CorpusHead& head) {
  const auto by_name = format_of_corpus_name(path);
  const std::string name = corpus_input_name(path);
  switch (head.content) {
    case CorpusContent::kBlank:
      return by_name.value_or(CorpusFormat::kJsonLines);
    case CorpusContent::kJsonDocument:
      throw DataError(
          "{}: JSON, but not one object a line: write it as JSON lines (jq -c . of objects over "
          "several lines, jq -c '.[]' of a list), or give --format text to read it as plain text",
          name);
    case CorpusContent::kJsonLines:
      if (by_name != CorpusFormat::kText) return CorpusFormat::kJsonLines;
      throw ConfigError(
          "{}: its name says plain text, but its lines are JSON objects: give --format jsonl to "
          "read them, or --format text to take them as they are",
          name);
    case CorpusContent::kMixed:
      if (by_name == CorpusFormat::kJsonLines) return CorpusFormat::kJsonLines;
      throw ConfigError(
          "{}: some of its lines are JSON objects and some are not: give --format jsonl or "
          "--format "
          "text",
          name);
    case CorpusContent::kText:
      break;
  }
  // The message says what is wrong in the line that should be an object.
  if (by_name != CorpusFormat::kJsonLines || head.begins_json) {
    return by_name.value_or(CorpusFormat::kText);
  }
  throw ConfigError(
      "{}: its name says JSON lines, but its lines are no JSON objects: give --format text to read "
      "plain text, or --format jsonl to hear what is wrong with each line",
      name);
}

}  // namespace phalanx
