#pragma once
// What a checkpoint takes of the disks.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "phalanx/mesh/rank_grid.h"
#include "phalanx/model/model.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

struct SavePlan {
  std::int64_t bytes = 0;         // of tensors, of all ranks
  std::int64_t largest_part = 0;  // what one rank writes at most, to a tile of its states
  std::int64_t host_bytes = 0;    // what the ranks of one host write at most
  std::optional<double> seconds;  // of that host at --disk-bandwidth, if it is given
};

// `groups`: the plans of all ranks, which come to hosts in their order.
SavePlan save_plan(const TrainConfig& config, const Model& model, std::span<const RankPlan> groups);

// "1.50 GiB, of the ranks of a host (8) up to 512 MiB, of one up to 64 MiB, which takes 2.1 s at
// 0.25 GB/s".
std::string to_text(const SavePlan& plan, const TrainConfig& config);

}  // namespace phalanx
