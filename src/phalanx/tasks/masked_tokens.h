#pragma once
// How likely a trained BERT finds tokens at a place of a text, given all other tokens of it.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/model/bert.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

class InferenceModel;

// A token of the vocabulary as an answer.
struct Candidate {
  std::int32_t id = 0;
  double probability = 0.0;
};

class MaskedTokens {
 public:
  // Loads the weights; `config` is for inference (settings/train_config.h), `model` of any sequence
  // length. Memory is planned for texts of these lengths in tokens, [CLS] and [SEP] counted.
  MaskedTokens(const TrainConfig& config, const BertConfig& model,
               const CheckpointReader& checkpoint, const DeviceChoice& device,
               std::span<const std::int64_t> lengths);
  ~MaskedTokens();

  // Natural logarithms of the probabilities of all ids, [vocabulary], at each of the places of a
  // text of one of the lengths; DataError where one is not a number.
  std::vector<std::vector<double>> log_probabilities(std::span<const std::int32_t> tokens,
                                                     std::span<const std::int64_t> places);
  // The log probability of each token but the first and the last ([CLS] and [SEP]) when `mask` is
  // in its place (Salazar et al., Masked Language Model Scoring, 2020).
  std::vector<double> score(std::span<const std::int32_t> tokens, std::int32_t mask);

 private:
  BertConfig config_;
  std::unique_ptr<InferenceModel> model_;
};

// The most likely ids, likeliest first.
std::vector<Candidate> best_candidates(const std::vector<double>& log_probabilities,
                                       std::int64_t count);

// [CLS] text [SEP], with the special tokens in the text read as such. ConfigError where the
// tokenizer has no [MASK], [CLS] or [SEP].
std::vector<std::int32_t> encode_with_masks(const Tokenizer& tokenizer, const std::string& text);

}  // namespace phalanx
