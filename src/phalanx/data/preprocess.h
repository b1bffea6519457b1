#pragma once
// From text to indexed datasets (`phalanx preprocess-data`): reads plain text and JSON lines,
// encodes document by document and writes `{prefix}_{key}_document.{bin,idx}` as Megatron's tool
// does. The tokenizer is a function, for this folder knows none.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

enum class CorpusFormat { kText, kJsonLines };

struct PreprocessProgress {
  std::int64_t documents = 0;
  std::int64_t bytes_read = 0;
  std::int64_t bytes_total = 0;
};

struct PreprocessOptions {
  std::vector<std::filesystem::path> inputs;
  std::string output_prefix;

  // None: JSON lines where a file's name ends in .json, .jsonl or .ndjson, plain text otherwise.
  std::optional<CorpusFormat> format;

  // JSON lines: one object a line, each key a string or a list of strings (one sequence each); one
  // output per key. Lines of blanks are skipped. Plain text has the one key "text".
  std::vector<std::string> json_keys{"text"};
  std::int64_t max_line_bytes = std::int64_t{256} << 20;

  // Plain text: each file is one document, unless it is cut at lines of nothing but blanks or at
  // every occurrence of a separator such as "<|endoftext|>". The pieces lose their outer line
  // breaks, and empty ones are dropped.
  bool split_on_blank_lines = false;
  std::string document_separator;

  // Ends every document that has tokens with `eod`.
  bool append_eod = false;
  std::int32_t eod = -1;
  // Ids must be below it, and it decides the token type of the output.
  std::int64_t vocabulary_size = 0;

  // Threads that parse and encode; the output does not depend on their number.
  int workers = 1;

  // Called every so many documents, in order, and at the end; always by the calling thread.
  std::function<void(const PreprocessProgress&)> progress;
  std::int64_t progress_interval = 1000;
};

struct PreprocessResult {
  // Of one key; the tokens over all keys, end-of-document included.
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;  // without tokens, over all keys; stored as empty documents
  std::int64_t tokens = 0;
  std::int64_t bytes_read = 0;
  std::vector<std::string> output_prefixes;  // in the order of the keys: what --data-path takes
};

// The token ids of a text. With several workers it is called from several threads at once.
using EncodeFunction = std::function<std::vector<std::int32_t>(std::string_view)>;

// Nothing appears under the output names unless all inputs were good. DataError with file and line
// for a malformed line (the first in the order of the files), ConfigError for options that
// contradict each other.
PreprocessResult preprocess(const PreprocessOptions& options, const EncodeFunction& encode);

}  // namespace phalanx
