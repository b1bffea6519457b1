#pragma once
// The input of preprocess-data and of train-tokenizer: which files, and what is a document in them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/corpus/batch_reader.h"
#include "phalanx/corpus/documents.h"

namespace phalanx {

struct CorpusOptions {
  // Files, or "-" for standard input. gzip and zstd are told by their first bytes.
  std::vector<std::string> inputs;

  // None: told by the content of each file (text_format.h).
  std::optional<CorpusFormat> format;

  // JSON lines: one object a line, each key a string or a list of strings. Lines of blanks are
  // skipped. Plain text has the one key "text".
  std::vector<std::string> json_keys{"text"};
  // So many lines of JSON that cannot be read, or lack a key, are left out; one more is an error.
  std::int64_t skip_bad_lines = 0;

  // Plain text: each file is one document, unless it is cut at lines of nothing but blanks or at
  // every occurrence of a separator such as "<|endoftext|>". The pieces lose their outer line
  // breaks, and empty ones are dropped.
  bool split_on_blank_lines = false;
  std::string document_separator;
  // A longer line of JSON is a bad line, a longer text an error.
  std::int64_t max_document_bytes = std::int64_t{1} << 30;
  // Where documents do not matter, a text need not fit in memory: as CorpusReaderOptions has it.
  std::function<std::size_t(std::string_view text)> cut_text;

  // Threads that work on the documents; what comes of them does not depend on their number.
  int workers = 1;
  // Text that a worker takes at once.
  std::size_t batch_bytes = std::size_t{1} << 20;

  // Called for each line that is left out; always by the calling thread.
  std::function<void(const std::string& problem)> skipped;
  // Called for what is used as it is though it may be a fault, once a file; by the calling thread.
  std::function<void(const std::string& problem)> warned;
  // Called by several threads: whether to end.
  StopRequested stop_requested;
};

// ConfigError for options that contradict each other, whatever the inputs hold.
void check_corpus_options(const CorpusOptions& options);

// The inputs as whole files. The formats of files are told now, those of pipes when they are
// opened. ConfigError where a file does not go with the options, and the errors of CorpusInput and
// format_of_corpus().
std::vector<CorpusSegment> corpus_segments(const CorpusOptions& options);

// The format of an input by what it begins with; errors as of corpus_segments().
CorpusFormat corpus_format(const CorpusOptions& options, const std::string& path,
                           const CorpusHead& head);

// The files that a pattern of the shell's (*, ?, [...]) means, sorted by name as bytes, where there
// is no file of that very name; a name without a pattern is left as it is. InputMissingError where
// a pattern means no file.
std::vector<std::string> matching_files(const std::vector<std::string>& patterns);

}  // namespace phalanx
