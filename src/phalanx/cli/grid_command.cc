#include <fmt/core.h>

#include "phalanx/base/error.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/flags.h"
#include "phalanx/cli/grid_report.h"

namespace phalanx {

int run_grid(const Arguments& arguments) {
  ParallelSizes sizes;
  bool data_outermost = false;
  bool json = false;
  std::string order(kDefaultOrder);
  Flags flags("phalanx grid", "Which rank sits where, and all groups of ranks.");
  flags.add("--world-size", sizes.world, "Ranks of the job (required)");
  flags.add("--tensor-model-parallel-size", sizes.tensor, "Ranks that share a layer");
  flags.add("--pipeline-model-parallel-size", sizes.pipeline, "Stages of a pipeline");
  flags.add("--context-parallel-size", sizes.context, "Ranks that share a sequence");
  flags.add("--expert-model-parallel-size", sizes.expert, "Ranks that share the experts");
  flags.add("--expert-tensor-parallel-size", sizes.expert_tensor,
            "Ranks that share an expert (0: the tensor-parallel size)");
  flags.add_switch("--use-tp-pp-dp-mapping", data_outermost,
                   "Rank order tp-cp-ep-pp-dp: pipelines inside data parallelism");
  flags.add("--rank-order", order, "The axes tp, cp, ep, dp and pp, the fastest first");
  flags.add_switch("--json", json, "One JSON document on standard output");
  flags.parse(arguments);
  if (!flags.given("--world-size")) throw UsageError("phalanx grid: --world-size N must be given");
  if (data_outermost && flags.given("--rank-order")) {
    throw UsageError(
        "phalanx grid: --use-tp-pp-dp-mapping and --rank-order {} both set the order; give one",
        order);
  }
  if (data_outermost) order = kDataOutermostOrder;
  const ParallelGrids grids = parallel_grids(sizes, order);
  fmt::print("{}", json ? to_json(grids) : to_text(grids));
  return 0;
}

}  // namespace phalanx
