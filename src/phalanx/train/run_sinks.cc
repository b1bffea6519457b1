#include "phalanx/train/run_sinks.h"

#include <filesystem>
#include <memory>

#include "phalanx/metrics/log_sink.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/metrics/progress.h"
#include "phalanx/metrics/run_events.h"
#include "phalanx/metrics/tensorboard_sink.h"
#include "phalanx/report/report.h"
#include "phalanx/timelines/run_timeline.h"

namespace phalanx {
namespace {

TensorBoardOptions tensorboard_options(const RunConfig& run) {
  return {.directory = run.tensorboard_dir,
          .interval = run.tensorboard_log_interval,
          .queue_size = run.tensorboard_queue_size,
          .timers = run.log_timers_to_tensorboard,
          .throughput = run.log_throughput,
          .batch_size = run.log_batch_size_to_tensorboard,
          .memory = run.log_memory_to_tensorboard,
          .world_size = run.log_world_size_to_tensorboard,
          .validation_perplexity = run.log_validation_ppl_to_tensorboard,
          .learning_rate = !run.no_log_learning_rate_to_tensorboard,
          .loss_scale = !run.no_log_loss_scale_to_tensorboard};
}

}  // namespace

RunSinks default_sinks(const RunConfig& run, HasTerminal has_terminal) {
  RunSinks sinks;
  sinks.add(std::make_unique<LogSink>(LogOptions{.throughput = run.log_throughput,
                                                 .timing_option = run.timing_log_option,
                                                 .memory_interval = run.log_memory_interval}));
  if (!run.save.empty()) {
    sinks.add(std::make_unique<MetricsSink>(std::filesystem::path(run.save) / kMetricsName));
    sinks.add(std::make_unique<EventsSink>(std::filesystem::path(run.save) / kEventsName));
  }
  if (!run.tensorboard_dir.empty()) {
    sinks.add(std::make_unique<TensorBoardSink>(tensorboard_options(run)));
  }
  if (has_terminal == HasTerminal::kYes) sinks.add(std::make_unique<ProgressSink>());
  // It reads the files of the sinks before it.
  if (!run.save.empty()) sinks.add(std::make_unique<ReportSink>(run.save, draw_timelines));
  return sinks;
}

}  // namespace phalanx
