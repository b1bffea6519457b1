#include "phalanx/observe/log_sink.h"

#include <chrono>
#include <cmath>

#include "phalanx/base/log.h"

namespace phalanx {

void LogSink::begin(const RunBegin& begin) {
  last_iteration_ = begin.last_iteration;
  world_size_ = static_cast<double>(begin.world_size);
  peak_flops_ = begin.peak_flops;
  for (const std::string& line : begin.lines) log_info("{}", line);
}

void LogSink::iteration(const IterationReport& report) {
  interval_.add(report.losses, report.seconds, report.skipped);
  if (report.is_logged) print_line(report);
}

void LogSink::print_line(const IterationReport& report) {
  const LogInterval::Summary summary = interval_.take();
  const double per_second = 1e3 / summary.milliseconds_per_iteration;
  const double flops = report.model_flops * per_second;
  TrainingLine line;
  line.time = std::chrono::system_clock::now();
  line.iteration = report.iteration;
  line.train_iterations = last_iteration_;
  line.consumed_samples = report.consumed_samples;
  line.skipped_samples = report.skipped_samples;
  line.milliseconds_per_iteration = summary.milliseconds_per_iteration;
  line.learning_rate = report.learning_rate;
  line.decoupled_learning_rate = report.decoupled_learning_rate;
  line.global_batch_size = report.global_batch_size;
  line.losses = summary.losses;
  line.loss_scale = report.loss_scale;
  // As Megatron: what was skipped has neither.
  if (!report.skipped) {
    if (!std::isnan(report.grad_norm)) line.grad_norm = report.grad_norm;
    line.zeros_in_gradients = report.zeros_in_gradients;
  }
  line.parameters_norm = report.parameters_norm;
  line.skipped_iterations = summary.skipped_iterations;
  line.nan_iterations = summary.nan_iterations;
  if (throughput_) line.tera_flops_per_second = flops / 1e12 / world_size_;
  log_info("{}", format_training_line(line));
  log_info("   {:.0f} tokens/s, {:.1f} GFLOP/s of {:.0f} ({:.0f} % of the peak)",
           static_cast<double>(report.tokens) * per_second, flops / 1e9, peak_flops_ / 1e9,
           100.0 * flops / peak_flops_);
}

void LogSink::evaluation(const EvaluationReport& report) {
  log_info("{}", format_evaluation_block(report.place, report.losses));
}

void LogSink::note(const RunNote& note) {
  if (note.text.empty()) return;
  log_line(note.is_warning() ? LogLevel::kWarning : LogLevel::kInfo, note.text);
}

}  // namespace phalanx
