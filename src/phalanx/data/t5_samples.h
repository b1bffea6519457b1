#pragma once
// Samples of T5: a run of sentences in which spans are replaced by sentinels, for the encoder, and
// the spans behind their sentinels, for the decoder.

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

struct T5Options {
  MaskedOptions common;
  std::int64_t decoder_sequence_length = 0;
};

// A sample with Megatron's names; text_enc has the encoder's length, the others the decoder's.
struct T5Sample {
  std::vector<std::int32_t> text_enc;   // sentinels in place of spans; padded with 0
  std::vector<std::int32_t> text_dec;   // [BOS], then every sentinel and its span; padded with 0
  std::vector<std::int32_t> labels;     // the same one row earlier, then [EOS]; padded with -1
  std::vector<std::int32_t> loss_mask;  // 1 where there is a label
  std::int64_t encoder_tokens = 0;      // those that are no padding
  std::int64_t decoder_tokens = 0;
  bool truncated = false;  // tokens were left out
};

// ConfigError: the vocabulary lacks a token or has no sentinels, or its padding is not 0; a length
// is too short; the share of masked tokens is not in (0, 1).
void check_t5_options(const T5Options& options);
// Most tokens that a sample can give the decoder, and most spans: many less do on average.
std::int64_t most_decoder_tokens(const T5Options& options);
std::int64_t most_spans(const T5Options& options);

class T5Dataset {
 public:
  // At least `samples` of these documents; none: each once. ConfigError as check_t5_options() and
  // build_sentence_mapping().
  T5Dataset(std::shared_ptr<const IndexedDataset> data, IndexRange documents,
            std::optional<std::int64_t> samples, const T5Options& options);

  // Samples there are: at least the requested ones, up to the end of the last epoch.
  std::int64_t size() const { return sentences_.size(); }
  std::int64_t sequence_length() const { return sequence_length_; }
  std::int64_t decoder_sequence_length() const { return decoder_sequence_length_; }
  const SentenceMapping& mapping() const { return sentences_.mapping(); }

  // Sample i in [0, size()): a pure function of the data, the options and i. DataError as
  // SentenceDataset, and, naming the sample, where it has more spans than there are sentinels or
  // does not fit the decoder.
  void sample(std::int64_t i, T5Sample& sample) const;

 private:
  void check_fits(std::int64_t i, const MaskedSpans& masked) const;

  SentenceDataset sentences_;
  Masker masker_;
  std::shared_ptr<const MaskingVocabulary> vocabulary_;
  std::int64_t sequence_length_;
  std::int64_t decoder_sequence_length_;
  std::uint32_t seed_;
};

// One loss, "lm loss".
class T5Samples final : public SampleSource {
 public:
  explicit T5Samples(std::shared_ptr<const T5Dataset> dataset);

  std::int64_t size() const override { return dataset_->size(); }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;

  const T5Dataset& dataset() const { return *dataset_; }

 private:
  std::shared_ptr<const T5Dataset> dataset_;
  BatchSchema schema_;
};

}  // namespace phalanx
