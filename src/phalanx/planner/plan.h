#pragma once
// `phalanx plan`: what a run with these flags would take on every rank of its world, without
// allocating it.

#include <string>
#include <vector>

#include "phalanx/train/config.h"
#include "phalanx/train/memory_plan.h"

namespace phalanx {

struct RunPlan {
  TrainConfig config;  // resolved
  RankGrid grid;
  GptConfig model;
  cpu::ProductPrecision products = cpu::ProductPrecision::kFp32;
  std::int64_t model_parameters = 0;  // global, without vocabulary padding
  std::vector<RankPlan> groups;       // data-parallel ranks do the same
};

// `config` is resolved; `vocabulary` is the tokenizer's size.
RunPlan plan_run(const TrainConfig& config, std::int64_t vocabulary,
                 cpu::ProductPrecision products);

// Which ranks the document lists: up to 64 all of them; of larger worlds the first of each group,
// with the others under "same_as", unless all are asked for.
enum class ListedRanks { kAsManyAsReadable, kAll };

// One JSON document with a newline: {"model", "flops_per_step", "batch_sizes": [{"samples",
// "global_batch_size"}], "ranks": [{"rank", "coordinates", "parameters", "bytes",
// "microbatches_in_flight", "messages", "largest_program": {"kind", "global_batch_size",
// "iterations", "microbatches", "bytes"}}]}. Operations and messages are of a step of the last
// batch.
std::string to_json(const RunPlan& plan, ListedRanks listed = ListedRanks::kAsManyAsReadable);
// The table for people.
std::string to_text(const RunPlan& plan);

}  // namespace phalanx
