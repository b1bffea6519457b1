#pragma once
// Works on all documents of a corpus: one thread reads, several threads encode.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/corpus/options.h"
#include "phalanx/corpus/thread_pipeline.h"

namespace phalanx {

// The texts of a document, by key: one text for a string, any number for a list of strings.
using KeyTexts = std::vector<std::vector<std::string_view>>;

class CorpusWork {
 public:
  // Encodes a document into the batch; several threads call it at once. A DataError is a fault of
  // the document; then nothing of it may be in the batch.
  using Encode = std::function<void(const KeyTexts& texts, EncodedBatch& batch)>;
  // Takes the batches in order; called by the calling thread.
  using Take = std::function<void(const EncodedBatch& batch)>;

  // `stop_if_asked` throws to end the work; the calling thread calls it several times a second. The
  // options must outlive this.
  CorpusWork(const CorpusOptions& options, std::function<void()> stop_if_asked)
      : options_(options), stop_if_asked_(std::move(stop_if_asked)) {}

  // DataError with file and line for the first bad line too many, in the order of the files; also
  // the errors of CorpusReader.
  void run(std::span<const CorpusSegment> segments, const Encode& encode, const Take& take);

  // Adds bad lines that were left out elsewhere; they count towards the allowed number.
  void add_bad_lines(std::int64_t count) { bad_lines_ += count; }
  std::int64_t bad_lines() const { return bad_lines_; }

 private:
  void judge(const EncodedBatch& batch, const CorpusSegment& segment);
  std::string place_of(const CorpusSegment& segment, std::int64_t line);

  const CorpusOptions& options_;
  std::function<void()> stop_if_asked_;
  // Line breaks of a file before a segment.
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> first_lines_;
  std::set<std::string> warned_;  // files
  std::int64_t bad_lines_ = 0;
};

struct CorpusCounts {
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t skipped_lines = 0;
};

// Visits every text of every key, in any order; options.workers threads call `visit` at once.
// DataError if there is no document.
CorpusCounts for_each_corpus_text(const CorpusOptions& options,
                                  const std::function<void(std::string_view text)>& visit);

}  // namespace phalanx
