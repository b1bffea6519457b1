#include "phalanx/planner/save_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "phalanx/base/numeric.h"
#include "phalanx/optim/optimizer_rule.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/disk_rates.h"
#include "phalanx/settings/trained_parameters.h"

namespace phalanx {
namespace {

constexpr double kGigabyte = 1e9;

bool writes_parts(const RunConfig& run) { return run.ckpt_fully_parallel_save || run.async_save; }

// Of one element of a parameter. In parts, a weight that is its main parameter, rounded, is left
// out.
std::int64_t bytes_of_element(const TrainConfig& c, DType dtype, bool is_trained) {
  const std::int64_t weight = size_of(dtype);
  if (c.run.no_save_optim || !is_trained) return weight;
  const bool has_mains = c.model.bf16 || c.model.fp16;
  const std::int64_t full = size_of(nn::full_precision(dtype));
  const std::int64_t states = std::ssize(state_names(optimizer_settings(c.optimizer).rule));
  const bool is_rounded = has_mains && dtype != nn::full_precision(dtype);
  const std::int64_t stored = is_rounded && writes_parts(c.run) ? 0 : weight;
  return stored + full * (states + (has_mains ? 1 : 0));
}

}  // namespace

SavePlan save_plan(const TrainConfig& config, const Model& model,
                   std::span<const RankPlan> groups) {
  SavePlan plan;
  nn::ParamTable table;
  table.freeze(frozen_parameters(config));
  model.build_chunk(model.whole(), table);
  std::int64_t elements = 0;
  std::int64_t frozen_bytes = 0;
  for (ParamId id = 0; id < table.size(); ++id) {
    const std::int64_t count = table[id].global_shape.count();
    const bool is_saved = table[id].trainable || !config.lora.has_base;
    const std::int64_t bytes =
        is_saved ? count * bytes_of_element(config, table[id].dtype, table[id].trainable) : 0;
    if (!table[id].is_state) elements += count;
    plan.bytes += bytes;
    if (!table[id].trainable) frozen_bytes += bytes;
  }
  if (!writes_parts(config.run)) {
    plan.largest_part = plan.bytes;
    plan.host_bytes = plan.bytes;
  } else {
    const auto per_element = [&](std::int64_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(elements);
    };
    std::map<int, double> of_hosts;
    const auto ranks_of_host = static_cast<int>(ranks_on_machine(config.layout));
    double largest = 0;
    const ParallelGrids grids = parallel_grids(config.layout);
    const auto dense_ranks = static_cast<double>(data_and_context_size(config.layout));
    const auto expert_ranks = static_cast<double>(grids.expert_sizes().data);
    for (const RankPlan& group : groups) {
      // The data-parallel ranks of each domain share what they have; the first one writes what is
      // not trained.
      const auto experts = static_cast<double>(group.memory.expert_parameters);
      const double dense = static_cast<double>(group.memory.model_parameters) - experts;
      const double part =
          (dense / dense_ranks + experts / expert_ranks) * per_element(plan.bytes - frozen_bytes);
      const GridCoordinates at = grids.dense.coordinates(group.ranks.front());
      const bool is_first = at.data == 0 && at.context == 0;
      const double of_first = (experts + (is_first ? dense : 0.0)) * per_element(frozen_bytes);
      largest = std::max(largest, part + of_first);
      for (const int rank : group.ranks) of_hosts[rank / ranks_of_host] += part;
      of_hosts[group.ranks.front() / ranks_of_host] += of_first;
    }
    const auto bytes = [&](double number) {
      return std::min(plan.bytes, static_cast<std::int64_t>(number));
    };
    plan.largest_part = bytes(largest);
    for (const auto& [host, part] : of_hosts)
      plan.host_bytes = std::max(plan.host_bytes, bytes(part));
  }
  if (const auto rates = disk_rates(config.layout)) {
    plan.seconds = static_cast<double>(plan.host_bytes) / rates->written;
  }
  return plan;
}

std::string to_text(const SavePlan& plan, const TrainConfig& config) {
  std::string text = format_bytes(plan.bytes);
  if (!writes_parts(config.run)) {
    if (config.layout.world_size > 1) text += ", all by rank 0";
  } else {
    text += fmt::format(", of the ranks of a host ({}) up to {}, of one up to {}",
                        ranks_on_machine(config.layout), format_bytes(plan.host_bytes),
                        format_bytes(plan.largest_part));
  }
  if (!plan.seconds) return text;
  return text + fmt::format(", which takes {:.3g} s at {:.3g} GB/s", *plan.seconds,
                            disk_rates(config.layout)->written / kGigabyte);
}

}  // namespace phalanx
