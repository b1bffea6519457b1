#include "phalanx/inference/run_answers.h"

#include <algorithm>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/families/family.h"
#include "phalanx/inference/lent_model.h"

namespace phalanx {

bool gives_answers(const TrainConfig& config) { return !config.run.answer_prompts.empty(); }

GptConfig answering_model(const TrainConfig& config, std::int64_t vocabulary) {
  std::optional<GptConfig> model = family_of(config).language_model(config, vocabulary);
  if (!model) {
    throw ConfigError("--answer-prompts is for models that go on with a text, a {} does not",
                      family_of(config).title());
  }
  // All rows of a text are on this rank, and nothing is kept for a backward pass.
  model->transformer.context = {};
  model->transformer.tensor = {};
  model->recompute = {};
  return *model;
}

std::int64_t answer_positions(const TrainConfig& config) {
  const std::int64_t positions = config.data.seq_length + config.run.answer_tokens;
  return std::min<std::int64_t>(positions, config.model.max_position_embeddings);
}

void reserve_answers(std::span<RankPlan> plans, const TrainConfig& config, std::int64_t vocabulary,
                     const DeviceChoice& device) {
  if (!gives_answers(config)) return;
  const std::int64_t bytes =
      LentModel::bytes(answering_model(config, vocabulary), answer_positions(config), device,
                       static_cast<int>(config.layout.threads_per_rank));
  for (RankPlan& plan : plans) reserve(plan.memory, "answers", bytes);
}

}  // namespace phalanx
