#include "phalanx/rehearsal/memory_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

// The program that takes the most, if there are several.
std::string largest_program(const MemoryPlan& plan) {
  if (plan.programs.size() <= 2) return "";
  const ProgramMemory& largest = plan.programs[plan.largest];
  return fmt::format(
      "  the most of {} programs: that of {}{} microbatches, {}\n", plan.programs.size(),
      largest.size.iterations > 1 ? fmt::format("{} iterations of ", largest.size.iterations) : "",
      largest.size.microbatches, format_bytes(largest.bytes.total()));
}

}  // namespace

std::string memory_table(const MemoryPlan& plan) {
  std::string text;
  const auto add = [&](std::string_view name, std::int64_t bytes) {
    text +=
        fmt::format("  {:<20} {:>12} {:>20} B\n", name, format_bytes(bytes), format_count(bytes));
  };
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    const std::int64_t bytes = plan.bytes.rows[row];
    if (bytes > 0 || !kMemoryRows[row].is_optional) add(kMemoryRows[row].name, bytes);
  }
  add("total", plan.bytes.total());
  if (plan.snapshot_bytes > 0) add("snapshots, at most", plan.snapshot_bytes);
  add("libraries, at most", plan.library_bound);
  std::vector<std::string> saved;
  for (const std::int64_t bytes : plan.saved_per_microbatch) saved.push_back(format_bytes(bytes));
  text += largest_program(plan);
  text += fmt::format("  saved per microbatch {}, microbatches in flight {}",
                      fmt::join(saved, " and "), fmt::join(plan.microbatches_in_flight, " and "));
  if (plan.lent > 0) {
    text += fmt::format("\n  of the saved bytes {} are weights and gradients lent to passes",
                        format_bytes(plan.lent));
  }
  return text;
}

std::vector<int> ranks_of_places(const ParallelGrids& grids) {
  std::map<PlaceInModel, int> first;
  for (int rank = 0; rank < grids.world_size(); ++rank) {
    first.try_emplace(place_in_model(grids, rank), rank);
  }
  std::vector<int> ranks;
  for (const auto& [place, rank] : first) ranks.push_back(rank);
  return ranks;
}

}  // namespace phalanx
