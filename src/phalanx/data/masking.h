#pragma once
// Which tokens of a sample are hidden from the model: whole words, in runs of one to a few, as
// Megatron's masked datasets draw them (create_masked_lm_predictions), draw for draw.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/data/numpy_random.h"

namespace phalanx {

// What masked samples must know of a tokenizer. An id of -1 is of a token that it does not have.
struct MaskingVocabulary {
  std::int64_t size = 0;                // ids are below it (the tokenizer's, not the padded one)
  std::vector<std::uint8_t> continues;  // by id, 1: goes on with the word before it ("##ing")
  std::int32_t pad = -1, cls = -1, sep = -1, mask = -1, bos = -1, eos = -1;
  std::vector<std::int32_t> sentinels;  // what stands for a span of T5, in order
};

enum class MaskingRule {
  // Runs of 1 to 3 words, shorter ones more often; of the tokens 8 in 10 become [MASK], one a
  // random id, one stays.
  kBert,
  // Runs of 1 to 10 words, geometric; every token becomes [MASK].
  kT5,
};

// What was masked of a sample, and memory that is used again for the next.
struct MaskedSpans {
  // The masked tokens, span after span in the order of their first tokens; within one they ascend.
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> labels;  // what stood there
  std::vector<std::int32_t> ends;    // of each span, in `positions`

  std::span<const std::int32_t> span_of(std::span<const std::int32_t> values, std::size_t i) const {
    const auto begin = static_cast<std::size_t>(i == 0 ? 0 : ends[i - 1]);
    return values.subspan(begin, static_cast<std::size_t>(ends[i]) - begin);
  }

  struct Work {
    std::vector<std::int32_t> pieces;  // places of all words, word after word
    std::vector<std::int32_t> words;   // where each word begins in `pieces`, and the end
    std::vector<std::int32_t> order;
    std::vector<std::uint8_t> is_masked;
    struct Run {
      std::int32_t begin = 0;  // of `pieces`
      std::int32_t end = 0;
    };
    std::vector<Run> runs;
  };
  Work work;
};

class Masker {
 public:
  // `probability`: the share of tokens to mask, in (0, 1).
  Masker(std::shared_ptr<const MaskingVocabulary> vocabulary, MaskingRule rule, double probability);

  // Masks `tokens`, which are ids of the vocabulary, in place. `target` is what the sample was cut
  // for: probability * target bounds the masked tokens, so that a target below 1 / probability
  // masks nothing.
  void mask(std::span<std::int32_t> tokens, std::int64_t target, NumpyRandom& random,
            MaskedSpans& masked) const;

 private:
  std::int32_t draw_words(NumpyRandom& random) const;
  void replace(std::span<std::int32_t> tokens, MaskedSpans::Work::Run run, NumpyRandom& random,
               const MaskedSpans::Work& work) const;

  std::shared_ptr<const MaskingVocabulary> vocabulary_;
  MaskingRule rule_;
  double probability_;
  std::vector<double> cumulative_;  // of the words in a run
};

}  // namespace phalanx
