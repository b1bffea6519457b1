#pragma once
// Options of the commands that read a corpus (preprocess-data, train-tokenizer): which files, and
// what a document is.

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
  // Files, or "-" for standard input. gzip and zstd are recognised by their first bytes.
  std::vector<std::string> inputs;

  // None: recognised by the content of each file (text_format.h).
  std::optional<CorpusFormat> format;

  // JSON lines: one object a line, each key a string or a list of strings. Blank lines are skipped.
  // Plain text has the one key "text".
  std::vector<std::string> json_keys{"text"};
  // The number of bad lines of JSON (not readable, or without a key) that are left out; one more is
  // an error.
  std::int64_t skip_bad_lines = 0;

  // Plain text: each file is one document, unless it is cut at blank lines or at every occurrence
  // of a separator such as "<|endoftext|>". Pieces lose their outer line breaks; empty ones are
  // dropped.
  bool split_on_blank_lines = false;
  std::string document_separator;
  // A longer line of JSON is a bad line; a longer text is an error.
  std::int64_t max_document_bytes = std::int64_t{1} << 30;
  // Cuts long texts where documents do not matter, so that they need not fit in memory (see
  // CorpusReaderOptions).
  std::function<std::size_t(std::string_view text)> cut_text;

  // The number of threads that work on documents; the result does not depend on it.
  int workers = 1;
  // The size of the text that a worker takes at once.
  std::size_t batch_bytes = std::size_t{1} << 20;

  // Called for each bad line that is left out, by the calling thread.
  std::function<void(const std::string& problem)> skipped;
  // Called at most once a file, by the calling thread, for text that is used although it looks
  // wrong.
  std::function<void(const std::string& problem)> warned;
  // Whether to stop; called by several threads.
  StopRequested stop_requested;
};

// ConfigError for options that contradict each other. Does not look at the inputs.
void check_corpus_options(const CorpusOptions& options);

// One segment for each input. The formats of files are found now, those of pipes when they are
// opened. ConfigError if a file contradicts the options; also the errors of CorpusInput and
// format_of_corpus().
std::vector<CorpusSegment> corpus_segments(const CorpusOptions& options);

// The format of an input from its first bytes; same errors as corpus_segments().
CorpusFormat corpus_format(const CorpusOptions& options, const std::string& path,
                           const CorpusHead& head);

// The files that match shell patterns (*, ?, [...]), sorted by name as bytes. The name of an
// existing file, and a name without a pattern, stay as they are. InputMissingError for a pattern
// that matches nothing.
std::vector<std::string> matching_files(const std::vector<std::string>& patterns);

}  // namespace phalanx
