#include "transfer_formulas.h"

#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// Of parts that lie in files, how many there are and how many elements they have.
struct Parts {
  std::int64_t count = 0, elements = 0;
  void add(std::int64_t part) {
    ++count;
    elements += part;
  }
};

class TransferAdder {
 public:
  explicit TransferAdder(TransferTotals& totals) : totals_(totals) {}
  // Each part, so many times.
  void operator()(const std::string& file, const char* op, const Parts& parts, std::int64_t size,
                  std::int64_t times) {
    if (parts.count == 0 || times == 0) return;
    // One entry has all bytes; the others are counted.
    TransferTotals moved;
    moved.add({{file, op, parts.elements * size}});
    moved.add(std::vector<Transfer>(static_cast<std::size_t>(parts.count - 1), {file, op, 0}));
    totals_.add(moved, times);
  }

 private:
  TransferTotals& totals_;
};

}  // namespace

TransferTotals step_transfers(const TrainConfig& config, std::int64_t vocabulary, int rank) {
  const LayoutConfig& layout = config.layout;
  const FlatSizes flat = flat_sizes(config, vocabulary, rank);
  const std::int64_t ranks = ranks_of_copy(config);
  const std::int64_t microbatches = num_microbatches(layout);
  const bool has_mains = config.model.bf16 || config.model.fp16;
  const std::int64_t weight_size = has_mains ? 2 : 4;
  TransferTotals totals;
  TransferAdder add(totals);

  std::int64_t movable = 0;
  for (const auto& region : flat.regions) movable += region.has_no_files ? 0 : region.elements;
  const std::int64_t all_own = movable / ranks;
  const double wanted = layout.offload_fraction * static_cast<double>(all_own);
  Parts states, weights;
  for (const FlatSizes::Region& region : flat.regions) {
    if (region.has_no_files) continue;
    Parts of_region;
    for (const std::int64_t bucket : buckets_of(config, region.elements)) {
      const std::int64_t own = bucket / ranks;
      of_region.add(own);
      weights.add(own);
      if (static_cast<double>(states.elements) < wanted) states.add(own);
    }
    if (layout.offload_parameters_to.empty()) continue;
    add("parameters", "read", of_region, weight_size,
        microbatches * region.gathers + (has_mains ? 0 : 1));
  }
  if (!layout.offload_parameters_to.empty()) add("parameters", "write", weights, weight_size, 1);
  if (layout.offload_optimizer_to.empty()) return totals;
  for (const char* file : {"exp_avg", "exp_avg_sq", "main parameters"}) {
    if (file == std::string_view("main parameters") && !has_mains) continue;
    add(file, "read", states, 4, 1);
    add(file, "write", states, 4, 1);
  }
  if (!cuts_gradients(config)) return totals;
  add("gradients", "read", states, 4, microbatches + 1);
  add("gradients", "write", states, 4, microbatches);
  return totals;
}

}  // namespace phalanx
