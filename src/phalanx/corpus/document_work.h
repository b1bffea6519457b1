#pragma once
// All documents of a corpus, read by one thread and worked on by several.

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

// The texts of a document: of each key one for a string, any number for a list of strings.
using KeyTexts = std::vector<std::vector<std::string_view>>;

class CorpusWork {
 public:
  // Of a document; several threads call it at once. A DataError is a fault of the document, which
  // then must not be in the batch.
  using Encode = std::function<void(const KeyTexts& texts, EncodedBatch& batch)>;
  // Of batches in order; the calling thread calls it.
  using Take = std::function<void(const EncodedBatch& batch)>;

  // `stop_if_asked` throws what ends the work; the calling thread calls it some times a second.
  // The options must outlive this.
  CorpusWork(const CorpusOptions& options, std::function<void()> stop_if_asked)
      : options_(options), stop_if_asked_(std::move(stop_if_asked)) {}

  // DataError with file and line for the first bad line that may not be left out, in the order of
  // the files; other errors as of CorpusReader.
  void run(std::span<const CorpusSegment> segments, const Encode& encode, const Take& take);

  // That were left out elsewhere, which counts towards those that may be.
  void add_bad_lines(std::int64_t count) { bad_lines_ += count; }
  std::int64_t bad_lines() const { return bad_lines_; }

 private:
  void judge(const EncodedBatch& batch, const CorpusSegment& segment);
  std::string place_of(const CorpusSegment& segment, std::int64_t line);

  const CorpusOptions& options_;
  std::function<void()> stop_if_asked_;
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> first_lines_;  // of segments
  std::set<std::string> warned_;                                              // files
  std::int64_t bad_lines_ = 0;
};

struct CorpusCounts {
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t skipped_lines = 0;
};

// Every text of every key, in any order; options.workers threads call `visit` at once. DataError
// where there is no document.
CorpusCounts for_each_corpus_text(const CorpusOptions& options,
                                  const std::function<void(std::string_view text)>& visit);

}  // namespace phalanx
