#pragma once
// How likely a model finds texts: the log probability of each token given the tokens before it. The
// kernels are those that compute the loss in training.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/data/gpt_columns.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class CheckpointReader;
class InferenceModel;

// A part of a text that the model reads at once: tokens [begin, begin + inputs). Tokens before
// `first` were scored in earlier windows and are only context here.
struct ScoreWindow {
  std::int64_t begin = 0;
  std::int64_t inputs = 0;
  std::int64_t first = 0;
  friend bool operator==(const ScoreWindow&, const ScoreWindow&) = default;
};
// The windows over a text of which `inputs` tokens are read: one window if there are at most
// `positions` of them; else windows of `positions` tokens, each `stride` (1 to positions) tokens
// behind the one before. Every token is scored in the first window that it is in.
std::vector<ScoreWindow> score_windows(std::int64_t inputs, std::int64_t positions,
                                       std::int64_t stride);

struct TextScore {
  // Natural logarithms; entry i is that of token i + 1 given tokens up to i. There is none of the
  // first token.
  std::vector<float> log_probabilities;
  // The mean of their negatives, which are added in order in double precision, as in training.
  double loss = 0.0;
  std::vector<float> logits;  // [vocabulary], of the token that would follow the text
};

struct ScoreOptions {
  std::int64_t stride = 0;  // of windows; 0: every text fits into the model's positions
  bool logits = false;
  std::int64_t positions = 0;  // of a window at most; 0: as many as the model has
  // Called after each window with the number of tokens that have been read.
  std::function<void(std::int64_t)> on_window = nullptr;
};

class Scorer {
 public:
  // Loads the weights; `config` is the resolved configuration of the checkpoint. Memory is planned
  // for texts of these lengths in tokens, each at least 2.
  Scorer(const TrainConfig& config, const GptConfig& model, const CheckpointReader& checkpoint,
         const DeviceChoice& device, std::int32_t end_of_document,
         std::span<const std::int64_t> lengths, const ScoreOptions& options);
  ~Scorer();

  // A text of one of the lengths, of ids of the vocabulary. DataError where the model's answer is
  // not a number.
  TextScore score(std::span<const std::int32_t> tokens);

 private:
  std::unique_ptr<InferenceModel> model_;
  ScoreOptions options_;
  GptBatchOptions batch_;
  std::int64_t positions_;
  std::int64_t vocabulary_;
};

}  // namespace phalanx
