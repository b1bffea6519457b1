#pragma once
// Labelled texts as samples of a BERT: [CLS] A [SEP], or [CLS] A [SEP] B [SEP], as Megatron-LM's
// tasks/data_utils.py builds them.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/data/sample_source.h"
#include "phalanx/tasks/labelled_texts.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// Columns of sequences of `sequence` tokens: tokens, types (0: A, 1: B and the [SEP] behind it),
// position_ids, and the row coordinates sample, position and document (-1: padding), all [s]; label
// [1] and loss_mask [1], which is 0 where the sample only fills up a batch.
BatchSchema classification_schema(std::int64_t sequence);

// The special tokens of a sample. ConfigError where the tokenizer lacks one of them.
struct ClassificationTokens {
  explicit ClassificationTokens(const Tokenizer& tokenizer);
  std::int32_t cls = 0, sep = 0, pad = 0;
};

struct EncodedPair {
  std::vector<std::int32_t> tokens;
  std::int64_t first_of_b = 0;  // tokens from here on have type 1; without B: the number of tokens
  bool is_cut = false;          // some tokens of A or B are left out
};
// At most `sequence` tokens. A longer sample is cut, first the end of B, then that of A, and ends
// with [SEP].
EncodedPair encode_pair(std::span<const std::int32_t> a, std::span<const std::int32_t> b,
                        bool has_b, const ClassificationTokens& special, std::int64_t sequence);

// Fills the columns of a sample whose sequence is long enough.
void fill_sample(const EncodedPair& pair, std::int32_t label, std::int32_t pad,
                 const BatchSchema& schema, Sample& sample);

class ClassificationSamples final : public SampleSource {
 public:
  // Encodes all texts. DataError names the line of a text that cannot be encoded.
  ClassificationSamples(const LabelledTexts& texts, const Tokenizer& tokenizer,
                        std::int64_t sequence);

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  std::int32_t label(std::int64_t index) const { return labels_[static_cast<std::size_t>(index)]; }
  std::span<const EncodedPair> pairs() const { return pairs_; }
  // How many samples are cut.
  std::int64_t cut() const { return cut_; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;

 private:
  BatchSchema schema_;
  std::int32_t pad_;
  std::vector<EncodedPair> pairs_;
  std::vector<std::int32_t> labels_;
  std::int64_t cut_ = 0;
};

}  // namespace phalanx
