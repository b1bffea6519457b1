#pragma once
// --answer-prompts: a run that is trained answers prompts. What that takes of a rank's memory.

#include <cstdint>
#include <span>

#include "phalanx/model/gpt.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

bool gives_answers(const TrainConfig& config);
// The model that is trained, as one rank continues a text with it.
GptConfig answering_model(const TrainConfig& config, std::int64_t vocabulary);
// Of a prompt and its answer.
std::int64_t answer_positions(const TrainConfig& config);

// Plans the row "answers" of each plan, where the run gives answers. Every rank that has the whole
// model reserves it, and the first one uses it.
void reserve_answers(std::span<RankPlan> plans, const TrainConfig& config, std::int64_t vocabulary,
                     const DeviceChoice& device);

}  // namespace phalanx
