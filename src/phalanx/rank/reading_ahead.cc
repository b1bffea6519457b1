#include "phalanx/rank/reading_ahead.h"

#include <algorithm>

#include "phalanx/base/text_batches.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr int kEvaluatedPerWorker = 2;          // microbatches
constexpr std::int64_t kThreadBytes = 1 << 20;  // stack and allocator

}  // namespace

BatchLoaderOptions reading_ahead(const TrainConfig& config, bool trains) {
  const LayoutConfig& layout = config.layout;
  const auto workers = static_cast<int>(config.data.num_workers);
  const std::int64_t largest = num_microbatches(layout, batch_schedule(config).largest());
  const std::int64_t few =
      std::clamp<std::int64_t>(kEvaluatedPerWorker * workers, 1, num_microbatches(layout));
  return {.micro_batch_size = layout.micro_batch_size,
          .ahead = static_cast<int>(trains ? largest : few),
          .workers = workers,
          .cut = context_cut(layout)};
}

std::int64_t bytes_read_ahead(const TrainConfig& config, const BatchSchema& schema) {
  const auto of = [&](bool trains) {
    const BatchLoaderOptions options = reading_ahead(config, trains);
    return BatchLoader::bytes(context_schema(schema, options.cut.ranks()), options) +
           options.workers * kThreadBytes;
  };
  return of(true) + (config.run.eval_iters > 0 ? 2 * of(false) : 0);
}

}  // namespace phalanx
