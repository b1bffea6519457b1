#pragma once
// From text to indexed datasets (`phalanx preprocess-data`): reads plain text and JSON lines,
// compressed or not, encodes document by document and writes
// `{prefix}_{key}_{document|sentence}.{bin,idx}` as Megatron's tool does. Memory does not grow with
// the inputs. The tokenizer is handed in as a function.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/corpus/options.h"
#include "phalanx/corpus/sentence_splitter.h"

namespace phalanx {

// The progress of this run; partitions that an earlier run completed do not count.
struct PreprocessProgress {
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;    // bytes of the documents' texts
  std::int64_t bytes_read = 0;    // bytes of the files as they lie on the disk
  std::int64_t bytes_total = -1;  // -1: not known, as for a pipe
};

// Each key makes an output. Each string of a list is a sequence.
struct PreprocessOptions : CorpusOptions {
  std::string output_prefix;

  // One sequence per sentence instead of per text; the outputs are then called _sentence.
  bool split_sentences = false;
  SentenceOptions sentences;

  // Ends every document that has tokens with `eod`.
  bool append_eod = false;
  std::int32_t eod = -1;
  // Ids must be less than this; it also decides the token type of the output.
  std::int64_t vocabulary_size = 0;
  // Names the tokenizer that the ids depend on: a partition made with another one is made again.
  std::string tokenizer;

  // The inputs are cut into this many parts of about the same size, in order. Each becomes a
  // dataset that outlives an interruption; at the end they are joined. The output does not depend
  // on the number.
  std::int64_t partitions = 1;

  // Called by the calling thread about every `progress_interval` documents, and at the end.
  std::function<void(const PreprocessProgress&)> progress;
  std::int64_t progress_interval = 1000;
};

struct PreprocessResult {
  // Documents of one key; tokens (end-of-document included) and sequences of all keys.
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;  // without tokens, over all keys; they are stored, too
  std::int64_t skipped_lines = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;
  std::int64_t reused_partitions = 0;        // completed by an earlier run
  std::vector<std::string> output_prefixes;  // in the order of the keys: what --data-path takes
};

// Thrown when stop_requested() returns true. Only completed partitions are left.
class PreprocessStopped : public ErrorOf<ErrorCode::kTemporary> {
  using ErrorOf::ErrorOf;
};

// Encodes a text as token ids. With several workers it is called by several threads at once.
using EncodeFunction = std::function<std::vector<std::int32_t>(std::string_view)>;

// The PREFIX of PREFIX.bin and PREFIX.idx of each output, in the order of the keys.
std::vector<std::string> preprocess_output_prefixes(const PreprocessOptions& options);

// Writes the datasets. Nothing appears under the output names unless all inputs could be read.
// DataError with file and line for a malformed line (the first in the order of the files),
// ConfigError for options that contradict each other.
PreprocessResult preprocess(const PreprocessOptions& options, const EncodeFunction& encode);

}  // namespace phalanx
