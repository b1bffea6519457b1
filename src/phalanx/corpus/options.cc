#include "phalanx/corpus/options.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <set>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr int kMaxWorkers = 1024;

bool cuts_text(const CorpusOptions& options) {
  return options.split_on_blank_lines || !options.document_separator.empty();
}

// Checks the options against the format of an input.
void check_format(const CorpusOptions& options, CorpusFormat format, const std::string& name) {
  if (format == CorpusFormat::kJsonLines) {
    if (!cuts_text(options)) return;
    throw ConfigError(
        "{}: JSON lines, of which each is one document: --split-on-blank-lines and "
        "--document-separator are for plain text",
        name);
  }
  if (options.json_keys != std::vector<std::string>{"text"}) {
    throw ConfigError("{}: plain text has only the key \"text\", but --json-keys asks for others",
                      name);
  }
  if (options.skip_bad_lines > 0) {
    throw ConfigError("{}: plain text has no bad lines; --skip-bad-lines is for JSON lines", name);
  }
}

}  // namespace

void check_corpus_options(const CorpusOptions& options) {
  if (options.inputs.empty()) throw ConfigError("--input: give at least one file");
  if (options.json_keys.empty()) throw ConfigError("--json-keys: give at least one key");
  if (std::set(options.json_keys.begin(), options.json_keys.end()).size() !=
      options.json_keys.size()) {
    throw ConfigError("--json-keys: a key is given twice");
  }
  if (options.workers < 1 || options.workers > kMaxWorkers) {
    throw ConfigError("--workers {}: give 1 to {}", options.workers, kMaxWorkers);
  }
  if (options.skip_bad_lines < 0) {
    throw ConfigError("--skip-bad-lines {}: must be at least 0", options.skip_bad_lines);
  }
  if (options.max_document_bytes < 1 || options.max_document_bytes > (std::int64_t{1} << 40)) {
    throw ConfigError("--max-document-bytes {}: give 1 to 2^40", options.max_document_bytes);
  }
  if (options.split_on_blank_lines && !options.document_separator.empty()) {
    throw ConfigError("--split-on-blank-lines and --document-separator exclude each other");
  }
  if (std::count(options.inputs.begin(), options.inputs.end(), kStandardInput) > 1) {
    throw ConfigError("--input: standard input can be read only once");
  }
  if (options.format) {
    check_format(options, *options.format, corpus_input_name(options.inputs.front()));
  }
}

CorpusFormat corpus_format(const CorpusOptions& options, const std::string& path,
                           const CorpusHead& head) {
  if (head.content == CorpusContent::kBlank && options.json_keys.size() > 1) {
    return CorpusFormat::kJsonLines;  // an empty file goes with all options
  }
  if (head.content == CorpusContent::kBlank && cuts_text(options)) return CorpusFormat::kText;
  const CorpusFormat format = format_of_corpus(path, head);
  check_format(options, format, corpus_input_name(path));
  return format;
}

std::vector<CorpusSegment> corpus_segments(const CorpusOptions& options) {
  std::vector<CorpusSegment> segments;
  for (const auto& path : options.inputs) {
    CorpusSegment& segment = segments.emplace_back();
    segment.path = path;
    segment.rules = {.format = options.format.value_or(CorpusFormat::kText),
                     .split_on_blank_lines = options.split_on_blank_lines,
                     .separator = options.document_separator};
    if (options.format) continue;
    // Bytes read from standard input, or from a pipe, cannot be read again.
    segment.is_format_open = path == kStandardInput || corpus_input_size(path) < 0;
    if (segment.is_format_open) continue;
    CorpusInput input(path);
    const CorpusHead head = look_at_corpus(input.peek(kCorpusHeadBytes), input.name());
    segment.rules.format = corpus_format(options, path, head);
    check_line_ends(head, segment.rules, input.name());
  }
  return segments;
}

std::vector<std::string> matching_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const auto& pattern : patterns) {
    std::error_code ignored;
    if (pattern.find_first_of("*?[") == std::string::npos ||
        std::filesystem::exists(pattern, ignored)) {
      files.push_back(pattern);
      continue;
    }
    ::glob_t found{};
    const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (status == GLOB_NOSPACE) throw std::bad_alloc();
    if (names.empty()) throw InputMissingError("{}: no file has such a name", pattern);
    std::sort(names.begin(), names.end());
    files.insert(files.end(), names.begin(), names.end());
  }
  return files;
}

}  // namespace phalanx
