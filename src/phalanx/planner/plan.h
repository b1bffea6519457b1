#pragma once
// `phalanx plan`: what a run with these flags would take, without allocating it.

#include <string>

#include "phalanx/train/memory_plan.h"

namespace phalanx {

struct RunPlan {
  TrainConfig config;  // resolved
  GptConfig model;
  cpu::ProductPrecision products = cpu::ProductPrecision::kFp32;
  std::int64_t model_parameters = 0;  // global, without vocabulary padding
  MemoryPlan memory;
};

// `config` is resolved; `vocabulary` is the tokenizer's size.
RunPlan plan_run(const TrainConfig& config, std::int64_t vocabulary,
                 cpu::ProductPrecision products);

// One JSON document with a newline: {"model", "flops_per_step", "ranks": [{"rank", "coordinates",
// "parameters", "bytes", "microbatches_in_flight", "messages"}]}.
std::string to_json(const RunPlan& plan);
// The table for people.
std::string to_text(const RunPlan& plan);

}  // namespace phalanx
