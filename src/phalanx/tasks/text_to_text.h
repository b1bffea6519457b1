#pragma once
// What a trained T5 makes of a text: how likely it holds a target to be, and an answer of its own,
// a token at a time. Each token is a pass over encoder and decoder from their first rows on.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/families/target_tokens.h"
#include "phalanx/inference/sampling.h"
#include "phalanx/inference/scoring.h"
#include "phalanx/model/t5.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// Of the answers that will be asked for: the tokens of the text, and of an answer at most. No text:
// scores alone are asked.
struct AnswerSizes {
  std::int64_t text = 0;
  std::int64_t most = 0;
};

class TextToText {
 public:
  // Loads the weights; `config` is for inference (settings/train_config.h). Memory is planned for
  // what is asked, for scores with the lengths of the model's samples.
  TextToText(const TrainConfig& config, const T5Config& model, const CheckpointReader& checkpoint,
             const DeviceChoice& device, const AnswerSizes& answers = {});
  ~TextToText();

  // Of a target that begins with TargetTokens::begin, each token but that one, given the text and
  // the tokens before it; both padded as training pads, so that the loss is that of training.
  // DataError where a probability is not a number.
  TextScore score(std::span<const std::int32_t> text, std::span<const std::int32_t> target);

  // Logits [vocabulary] of the token behind `target`, of which there are AnswerSizes::most tokens
  // at most, the first one counted; the text has as many as were planned for.
  std::vector<float> logits(std::span<const std::int32_t> text,
                            std::span<const std::int32_t> target);
  // The answer of AnswerSizes::most tokens, or shorter: up to a token that ends it, which is not
  // part of it.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> text,
                                     const TargetTokens& special, const SamplingOptions& options);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
  T5Config model_;
  AnswerSizes answers_;
};

}  // namespace phalanx
