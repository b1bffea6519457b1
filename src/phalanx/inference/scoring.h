#pragma once
// How likely a model holds texts to be: the log probability of each token given those before it, as
// training computes its loss, with the same kernels.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class CheckpointReader;

// A stretch of a text that the model sees at once: tokens [begin, begin + inputs), of which those
// before `first` have had their turn in earlier windows and are context alone.
struct ScoreWindow {
  std::int64_t begin = 0;
  std::int64_t inputs = 0;
  std::int64_t first = 0;
  friend bool operator==(const ScoreWindow&, const ScoreWindow&) = default;
};
// The windows over a text of which `inputs` tokens are read: one where they are no more than
// `positions`; else as long as the model has positions, each `stride` (1 to positions) further than
// the one before. Every token is read as the newest in one window, the first that it is in.
std::vector<ScoreWindow> score_windows(std::int64_t inputs, std::int64_t positions,
                                       std::int64_t stride);

struct TextScore {
  // Natural logarithms; entry i is that of token i + 1 given tokens up to i. The first token has
  // nothing before it, so there is one less than there are tokens.
  std::vector<float> log_probabilities;
  // The mean of their negatives, added in order in double precision, as training adds.
  double loss = 0.0;
  std::vector<float> logits;  // [vocabulary], of the token that would follow the text
};

struct ScoreOptions {
  std::int64_t stride = 0;  // of windows; 0: every text fits into the model's positions
  bool logits = false;
  std::int64_t positions = 0;  // of a window at most; 0: as many as the model has
  // Is told how many tokens of the text have had their turn.
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

  // Of one of the lengths; ids are the vocabulary's. DataError where the model's answer is not a
  // number.
  TextScore score(std::span<const std::int32_t> tokens);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
  ScoreOptions options_;
  std::int64_t positions_;
  std::int64_t vocabulary_;
};

}  // namespace phalanx
