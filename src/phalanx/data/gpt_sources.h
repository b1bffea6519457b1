#pragma once
// The sources of a GPT's samples: a split of one dataset, or a blend of several.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "phalanx/data/data_paths.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/gpt_samples.h"
#include "phalanx/data/sample_source.h"
#include "phalanx/data/split.h"

namespace phalanx {

struct GptSourceOptions {
  BatchSchema schema;  // with the columns of GptColumns
  GptBatchOptions batch;
  std::int64_t sequence_length = 0;
  // Ids must be below this (the tokenizer's size, not the padded one).
  std::int64_t vocabulary_size = 0;
  std::uint32_t seed = 1234;
  DataOrder order = DataOrder::kMegatron;
  std::function<void()> poll = nullptr;  // GptIndexOptions
  const IndexCache* cache = nullptr;     // none: in memory
};

// What is wanted of a split.
struct SourceRequest {
  SplitKind kind = SplitKind::kTrain;
  // None: each sample once.
  std::optional<std::int64_t> samples = std::nullopt;
  // None: all of every dataset is of this split.
  std::optional<Split> split = std::nullopt;
};

// Every source restarts from the same seed, as in Megatron.
class GptSources {
 public:
  // ConfigError where a batch option needs an end-of-document id and there is none.
  explicit GptSources(GptSourceOptions options);

  // Null where no samples are requested or there are none: an empty training part is a ConfigError,
  // an empty one that --split asks for a warning. A dataset of a blend whose part is empty is left
  // out of it, with a warning. ConfigErrors name the dataset.
  //  - One dataset without a weight has at least the requested samples.
  //  - With weights each has Megatron's surplus, and the blend at least the requested samples.
  //  - Without weights each sample of several datasets comes at most once: the blend may have fewer
  //    samples than requested.
  std::shared_ptr<const SampleSource> make(const DataBlend& blend, const SourceRequest& request);
  // Of made-up documents (MockSequences).
  std::shared_ptr<const SampleSource> make_mock(const SourceRequest& request);

  // Of all files that were opened, or of the made-up documents, however they are split.
  std::int64_t tokens() const;
  std::int64_t documents() const;

 private:
  std::shared_ptr<const IndexedDataset> open(const std::string& prefix);
  // The part of the split; empty where there is none.
  IndexRange range_of(const TokenSequences& sequences, const SourceRequest& request,
                      bool is_blended) const;
  std::shared_ptr<const SampleSource> samples_of(std::shared_ptr<const TokenSequences> sequences,
                                                 IndexRange range, SplitKind kind,
                                                 std::optional<std::int64_t> samples) const;
  std::shared_ptr<const SampleSource> blend_of(const DataBlend& blend,
                                               const SourceRequest& request);

  GptSourceOptions options_;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> files_;
  std::shared_ptr<const TokenSequences> mock_;
};

}  // namespace phalanx
