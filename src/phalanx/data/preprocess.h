#pragma once
// From text to indexed datasets (`phalanx preprocess-data`): reads plain text and JSON lines,
// compressed or not, encodes document by document and writes
// `{prefix}_{key}_{document|sentence}.{bin,idx}` as Megatron's tool does. Memory does not grow with
// the inputs. The tokenizer is a function, for this folder knows none.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/data/corpus.h"
#include "phalanx/data/corpus_reader.h"
#include "phalanx/data/sentence_splitter.h"

namespace phalanx {

// Of this run: what an earlier one left complete is not counted.
struct PreprocessProgress {
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;    // of the documents
  std::int64_t bytes_read = 0;    // of the files as they lie on the disk
  std::int64_t bytes_total = -1;  // -1: nobody knows, as of a pipe
};

struct PreprocessOptions {
  // Files, or "-" for standard input. gzip and zstd are told by their first bytes.
  std::vector<std::string> inputs;
  std::string output_prefix;

  // None: JSON lines where a file's name ends in .json, .jsonl or .ndjson (.gz, .zst and .zstd may
  // follow), and for what has no name; plain text otherwise.
  std::optional<CorpusFormat> format;

  // JSON lines: one object a line, each key a string or a list of strings (one sequence each); one
  // output per key. Lines of blanks are skipped. Plain text has the one key "text".
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

  // One sequence per sentence instead of per text; the outputs are then called _sentence.
  bool split_sentences = false;
  SentenceOptions sentences;

  // Ends every document that has tokens with `eod`.
  bool append_eod = false;
  std::int32_t eod = -1;
  // Ids must be below it, and it decides the token type of the output.
  std::int64_t vocabulary_size = 0;
  // Whatever else the ids depend on: a partition that was made with another one is made again.
  std::string tokenizer;

  // Threads that encode; the output does not depend on their number.
  int workers = 1;
  // The inputs are cut into so many parts of about the same size, in order. Each becomes a dataset
  // of its own that outlives an interruption; at last they are joined. The output does not depend
  // on their number.
  std::int64_t partitions = 1;
  // Text that a worker takes at once.
  std::size_t batch_bytes = std::size_t{1} << 20;

  // Called about every so many documents, and at the end; always by the calling thread.
  std::function<void(const PreprocessProgress&)> progress;
  std::int64_t progress_interval = 1000;
  // Called for each line that is left out; always by the calling thread.
  std::function<void(const std::string& problem)> skipped;
  // Called by several threads: whether to end with PreprocessStopped.
  StopRequested stop_requested;
};

struct PreprocessResult {
  // Of one key; the tokens and sequences over all keys, end-of-document included.
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;  // without tokens, over all keys; stored as empty documents
  std::int64_t skipped_lines = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;
  std::int64_t reused_partitions = 0;        // that an earlier run had left complete
  std::vector<std::string> output_prefixes;  // in the order of the keys: what --data-path takes
};

// It was told to stop. Nothing is left but the partitions that are complete.
class PreprocessStopped : public ErrorOf<ErrorCode::kTemporary> {
  using ErrorOf::ErrorOf;
};

// The token ids of a text. With several workers it is called from several threads at once.
using EncodeFunction = std::function<std::vector<std::int32_t>(std::string_view)>;

// The files that a pattern of the shell's (*, ?, [...]) means, sorted by name as bytes, where there
// is no file of that very name; a name without a pattern is left as it is. InputMissingError where
// a pattern means no file.
std::vector<std::string> matching_files(const std::vector<std::string>& patterns);

// Nothing appears under the output names unless all inputs were good. DataError with file and line
// for a malformed line (the first in the order of the files), ConfigError for options that
// contradict each other.
PreprocessResult preprocess(const PreprocessOptions& options, const EncodeFunction& encode);

}  // namespace phalanx
