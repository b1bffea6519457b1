#pragma once
// A trained T5's answers to a text: how likely it finds a given target, and an answer that it
// generates token by token. Each token is a whole pass over encoder and decoder.

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

class InferenceModel;

// The sizes of the answers that will be generated: the tokens of the text, and the most tokens of
// an answer. No text: only scores are asked for.
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

  // Scores the tokens of a target behind its first one, which is TargetTokens::begin. Text and
  // target are padded as in training, so that the loss is that of training. DataError where a
  // probability is not a number.
  TextScore score(std::span<const std::int32_t> text, std::span<const std::int32_t> target);

  // Logits [vocabulary] of the token behind `target`, which has at most AnswerSizes::most tokens;
  // the text has AnswerSizes::text tokens.
  std::vector<float> logits(std::span<const std::int32_t> text,
                            std::span<const std::int32_t> target);
  // An answer of at most AnswerSizes::most tokens. A token that ends the answer is not part of it.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> text,
                                     const TargetTokens& special, const SamplingOptions& options);

 private:
  std::unique_ptr<InferenceModel> model_;
  T5Config config_;
  AnswerSizes answers_;
};

}  // namespace phalanx
