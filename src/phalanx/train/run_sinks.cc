#include "phalanx/train/run_sinks.h"

#include <filesystem>
#include <memory>

#include "phalanx/observe/log_sink.h"
#include "phalanx/observe/metrics_file.h"
#include "phalanx/observe/progress.h"

namespace phalanx {

RunSinks default_sinks(const RunConfig& run) {
  RunSinks sinks;
  sinks.add(std::make_unique<LogSink>(run.log_throughput));
  if (!run.save.empty()) {
    sinks.add(std::make_unique<MetricsSink>(std::filesystem::path(run.save) / kMetricsName));
  }
  sinks.add(std::make_unique<ProgressSink>());
  return sinks;
}

}  // namespace phalanx
