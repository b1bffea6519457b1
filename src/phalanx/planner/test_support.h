#pragma once
// A small model to plan.

#include "phalanx/flag_table/test_support.h"
#include "phalanx/planner/plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {

inline TrainConfig planned_config(std::int64_t world) {
  TrainConfig c = with_flags(
      {},
      "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --max-position-embeddings 32 "
      "--seq-length 32 --micro-batch-size 2 --threads-per-rank 1");
  c.layout.world_size = world;
  return c;
}

inline RunPlan planned(TrainConfig c) {
  resolve(c, false);
  return plan_run(c, 1000, {cpu::ProductPrecision::kFp32});
}

}  // namespace phalanx
