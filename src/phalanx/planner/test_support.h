#pragma once
// A small model to plan.

#include "phalanx/planner/plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {

inline TrainConfig planned_config(std::int64_t world) {
  TrainConfig c;
  c.model.num_layers = 4;
  c.model.hidden_size = 64;
  c.model.num_attention_heads = 8;
  c.model.max_position_embeddings = 32;
  c.data.seq_length = 32;
  c.layout.micro_batch_size = 2;
  c.layout.threads_per_rank = 1;
  c.layout.world_size = world;
  return c;
}

inline RunPlan planned(TrainConfig c) {
  resolve(c, false);
  return plan_run(c, 1000, {cpu::ProductPrecision::kFp32});
}

}  // namespace phalanx
