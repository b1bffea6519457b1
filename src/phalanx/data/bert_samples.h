#pragma once
// Samples of BERT: runs of sentences, cut into two parts that are exchanged half of the time (what
// the binary head learns to tell), with words hidden in them (what the other head learns to guess).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/base/text_batches.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/data/masking.h"
#include "phalanx/data/sample_source.h"
#include "phalanx/data/sentence_dataset.h"

namespace phalanx {

struct BertOptions {
  MaskedOptions common;
  // Without the binary head a sample is one part, and one sentence suffices.
  bool binary_head = true;
};

// A sample with Megatron's names; all lists have s entries.
struct BertSample {
  std::vector<std::int32_t> text;          // [CLS] A [SEP] B [SEP], padded with 0
  std::vector<std::int32_t> types;         // 0; 1 for B and its [SEP]
  std::vector<std::int32_t> labels;        // what was masked, elsewhere -1
  std::vector<std::int32_t> loss_mask;     // 1 where there is a label
  std::vector<std::int32_t> padding_mask;  // 1 for what is no padding
  bool is_random = false;                  // A and B are exchanged
  bool truncated = false;                  // tokens were left out
};

// ConfigError: the vocabulary lacks a token, or its padding is not 0; --seq-length is too short;
// the share of masked tokens is not in (0, 1).
void check_bert_options(const BertOptions& options);

class BertDataset {
 public:
  // At least `samples` of these documents; none: each once. ConfigError as check_bert_options() and
  // build_sentence_mapping().
  BertDataset(std::shared_ptr<const IndexedDataset> data, IndexRange documents,
              std::optional<std::int64_t> samples, const BertOptions& options);

  // Samples there are: at least the requested ones, up to the end of the last epoch.
  std::int64_t size() const { return sentences_.size(); }
  std::int64_t sequence_length() const { return sequence_length_; }
  bool binary_head() const { return binary_head_; }
  const SentenceMapping& mapping() const { return sentences_.mapping(); }

  // Sample i in [0, size()): a pure function of the data, the options and i. DataError as
  // SentenceDataset.
  void sample(std::int64_t i, BertSample& sample) const;

 private:
  SentenceDataset sentences_;
  Masker masker_;
  std::shared_ptr<const MaskingVocabulary> vocabulary_;
  std::int64_t sequence_length_;
  std::uint32_t seed_;
  bool binary_head_;
};

// Losses: "lm loss", of the masked tokens, and, with the binary head, "sop loss", of the sample.
class BertSamples final : public SampleSource {
 public:
  explicit BertSamples(std::shared_ptr<const BertDataset> dataset);

  std::int64_t size() const override { return dataset_->size(); }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return dataset_->binary_head() ? 2 : 1; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;

  const BertDataset& dataset() const { return *dataset_; }

 private:
  std::shared_ptr<const BertDataset> dataset_;
  BatchSchema schema_;
};

}  // namespace phalanx
