#include "phalanx/rehearsal/memory_check.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/rehearsal/memory_table.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

struct Row {
  std::string_view name;
  std::int64_t bytes;
  std::string_view advice;
};

std::string_view advice_for(SmallerBy what, const LayoutConfig& layout) {
  switch (what) {
    case SmallerBy::kSharding:
      if (data_and_context_size(layout) == 1 || layout.use_distributed_optimizer) break;
      return "--use-distributed-optimizer";
    case SmallerBy::kRecompute:
      return layout.recompute_granularity == "full"
                 ? "a smaller --micro-batch-size or --seq-length"
                 : "--recompute-granularity full, a smaller --micro-batch-size or --seq-length";
    case SmallerBy::kMicrobatch:
      return "a smaller --micro-batch-size";
    case SmallerBy::kSequence:
      return "a smaller --seq-length";
    case SmallerBy::kSnapshot:
      return "a smaller --snapshot-fraction";
    case SmallerBy::kModel:
      break;
  }
  return "a smaller model";
}

// The plan without what only the host reads.
MemoryPlan rows_on_device(MemoryPlan plan) {
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    if (kMemoryRows[row].is_on_host) plan.bytes.rows[row] = 0;
  }
  return plan;
}

// The largest rows of a plan, until they are most of it.
std::vector<Row> largest_rows(const MemoryPlan& plan, const TrainConfig& config) {
  std::vector<Row> rows;
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    rows.push_back({kMemoryRows[row].name, plan.bytes.rows[row],
                    advice_for(kMemoryRows[row].smaller_by, config.layout)});
  }
  std::ranges::stable_sort(rows, std::greater{}, &Row::bytes);
  std::size_t count = 0;
  for (std::int64_t sum = 0; count < rows.size() && 4 * sum < 3 * plan.bytes.total(); ++count) {
    sum += rows[count].bytes;
  }
  rows.resize(count);
  return rows;
}

std::string what_to_do(const std::vector<Row>& rows, const TrainConfig& config) {
  std::vector<std::string_view> advice;
  for (const Row& row : rows) {
    if (std::ranges::find(advice, row.advice) == advice.end()) advice.push_back(row.advice);
  }
  if (data_parallel_size(config.layout) > 1)
    advice.emplace_back("fewer data-parallel ranks (--nproc)");
  return fmt::format("{}", fmt::join(advice, "; "));
}

// An error, or a warning if the user allows it.
void report(bool allow_overcommit, const std::string& text) {
  if (!allow_overcommit) {
    throw ConfigError("{}, or --allow-overcommit to begin nevertheless", text);
  }
  log_warning("{}; --allow-overcommit: the kernel may end the run in the middle of a step", text);
}

std::string both(std::int64_t needed, const AvailableMemory& available) {
  return fmt::format("{} needed, {} available ({})", format_bytes(needed),
                     format_bytes(available.bytes), available.limit);
}

}  // namespace

void check_memory(const TrainConfig& config, std::span<const RankPlan> plans, std::int64_t needed,
                  int ranks, const AvailableMemory& available) {
  if (needed <= available.bytes) return;
  const RankPlan& largest = *std::ranges::max_element(
      plans, {}, [](const RankPlan& plan) { return plan.memory.bytes.total(); });
  const std::vector<Row> rows = largest_rows(largest.memory, config);
  std::vector<std::string> names;
  for (const Row& row : rows) {
    names.push_back(fmt::format("{} ({})", row.name, format_bytes(row.bytes)));
  }
  report(
      config.run.allow_overcommit,
      fmt::format("the run does not fit into this machine's memory: {} for {} rank{}. Memory "
                  "plan of rank {}, {}:\n{}\nMost of it: {}. Choose {}",
                  both(needed, available), ranks, ranks == 1 ? "" : "s", largest.ranks.front(),
                  config.layout.world_size == 1 ? "the only one" : "the largest",
                  memory_table(largest.memory), fmt::join(names, ", "), what_to_do(rows, config)));
}

void check_memory(bool allow_overcommit, std::int64_t arena_bytes, const AvailableMemory& available,
                  std::string_view remedy, std::string_view whose) {
  if (arena_bytes <= available.bytes) return;
  report(allow_overcommit, fmt::format("the model does not fit into {} memory: {}. {}", whose,
                                       both(arena_bytes, available), remedy));
}

void check_memory(bool allow_overcommit, std::int64_t arena_bytes, const DeviceChoice& device,
                  std::string_view remedy) {
  if (const auto free = device.free_bytes()) {
    check_memory(allow_overcommit, arena_bytes, {.bytes = *free, .limit = "free"}, remedy,
                 "the device's");
  } else {
    check_memory(allow_overcommit, arena_bytes, available_memory(), remedy);
  }
}

std::int64_t device_bytes(const MemoryPlan& plan) { return rows_on_device(plan).bytes.total(); }

void check_device_memory(const TrainConfig& config, const MemoryPlan& plan, std::int64_t free) {
  const std::int64_t needed = device_bytes(plan);
  if (needed <= free) return;
  report(config.run.allow_overcommit,
         fmt::format("the rank needs {} of the device's memory, of which {} are free; give {}",
                     format_bytes(needed), format_bytes(free),
                     what_to_do(largest_rows(rows_on_device(plan), config), config)));
}

}  // namespace phalanx
