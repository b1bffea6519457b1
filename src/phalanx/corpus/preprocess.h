#pragma once
// From text to indexed datasets (`phalanx preprocess-data`): reads plain text and JSON lines,
// compressed or not, encodes document by document and writes
// `{prefix}_{key}_{document|sentence}.{bin,idx}` as Megatron's tool does. Memory does not grow with
// the inputs. The tokenizer is a function, for this folder knows none.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/corpus/options.h"
#include "phalanx/corpus/sentence_splitter.h"

namespace phalanx {

// Of this run: what an earlier one left complete is not counted.
struct PreprocessProgress {
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;    // of the documents
  std::int64_t bytes_read = 0;    // of the files as they lie on the disk
  std::int64_t bytes_total = -1;  // -1: nobody knows, as of a pipe
};

// The input makes one output per key; of a list of strings each is a sequence.
struct PreprocessOptions : CorpusOptions {
  std::string output_prefix;

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

  // The inputs are cut into so many parts of about the same size, in order. Each becomes a dataset
  // of its own that outlives an interruption; at last they are joined. The output does not depend
  // on their number.
  std::int64_t partitions = 1;

  // Called about every so many documents, and at the end; always by the calling thread.
  std::function<void(const PreprocessProgress&)> progress;
  std::int64_t progress_interval = 1000;
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

// stop_requested() asked for it. Nothing is left but the partitions that are complete.
class PreprocessStopped : public ErrorOf<ErrorCode::kTemporary> {
  using ErrorOf::ErrorOf;
};

// The token ids of a text. With several workers it is called from several threads at once.
using EncodeFunction = std::function<std::vector<std::int32_t>(std::string_view)>;

// What PREFIX.bin and PREFIX.idx of the outputs have in common, in the order of the keys.
std::vector<std::string> preprocess_output_prefixes(const PreprocessOptions& options);

// Nothing appears under the output names unless all inputs were good. DataError with file and line
// for a malformed line (the first in the order of the files), ConfigError for options that
// contradict each other.
PreprocessResult preprocess(const PreprocessOptions& options, const EncodeFunction& encode);

}  // namespace phalanx
