#include "phalanx/metrics/log_sink.h"

#include <chrono>
#include <cmath>

#include "phalanx/base/log.h"
#include "phalanx/metrics/timing_log.h"

namespace phalanx {

void LogSink::begin(const RunBegin& begin) {
  for (const std::string& line : begin.lines) log_info("{}", line);
  begin_ = begin;
  begin_.lines.clear();
  begin_.arguments.clear();
}

void LogSink::iteration(const IterationReport& report) {
  interval_.add(report.losses, report.seconds, report.skipped);
  if (report.is_logged) print_line(report);
  print_memory(report);
  if (const std::string times = format_times(options_.timing_option, report.times);
      !times.empty()) {
    log_info("{}", times);
  }
}

// As in Megatron, memory is printed with the first line after weights have changed; the plan is
// printed only there.
void LogSink::print_memory(const IterationReport& report) {
  const bool is_first = !memory_is_printed_ && report.is_logged && report.learning_rate > 0;
  const bool is_due =
      options_.memory_interval > 0 && report.iteration % options_.memory_interval == 0;
  if (is_first) {
    log_info("{}", format_footprints(begin_.weight_and_optimizer_bytes, begin_.activation_bytes));
    memory_is_printed_ = true;
  }
  if ((is_first || is_due) && !begin_.arenas.empty()) {
    log_info("{}", format_memory(report.iteration, begin_.arenas));
  }
}

void LogSink::print_line(const IterationReport& report) {
  const LogInterval::Summary summary = interval_.take();
  const double per_second = 1e3 / summary.milliseconds_per_iteration;
  const double flops = report.model_flops * per_second;
  TrainingLine line;
  line.time = std::chrono::system_clock::now();
  line.iteration = report.iteration;
  line.train_iterations = begin_.last_iteration;
  line.consumed_samples = report.consumed_samples;
  line.skipped_samples = report.skipped_samples;
  line.milliseconds_per_iteration = summary.milliseconds_per_iteration;
  line.learning_rate = report.learning_rate;
  line.decoupled_learning_rate = report.decoupled_learning_rate;
  line.global_batch_size = report.global_batch_size;
  line.losses = summary.losses;
  line.loss_scale = report.loss_scale;
  // As in Megatron, a skipped iteration has neither.
  if (!report.skipped) {
    if (!std::isnan(report.grad_norm)) line.grad_norm = report.grad_norm;
    line.zeros_in_gradients = report.zeros_in_gradients;
  }
  line.parameters_norm = report.parameters_norm;
  line.skipped_iterations = summary.skipped_iterations;
  line.nan_iterations = summary.nan_iterations;
  if (options_.throughput) {
    line.tera_flops_per_second = flops / 1e12 / static_cast<double>(begin_.world_size);
  }
  log_info("{}", format_training_line(line));
  log_info("   {:.0f} tokens/s, {:.1f} GFLOP/s of {:.0f}: MFU {:.1f} %, HFU {:.1f} %",
           static_cast<double>(report.tokens) * per_second, flops / 1e9, begin_.peak_flops / 1e9,
           100.0 * flops / begin_.peak_flops,
           100.0 * report.hardware_flops * per_second / begin_.peak_flops);
  if (report.predicted_seconds) {
    const std::string text = format_prediction_line(
        *report.predicted_seconds, summary.milliseconds_per_iteration / 1e3, report.parts);
    if (!text.empty()) log_info("   {}", text);
  }
  if (report.expert_loads) log_info("{}", format_expert_lines(*report.expert_loads));
}

void LogSink::evaluation(const EvaluationReport& report) {
  log_info("{}", format_evaluation_block(report.place, report.losses, report.scores));
}

void LogSink::answers(const AnswersReport& report) {
  for (const AnswersReport::Answer& answer : report.answers) {
    log_info("{}", format_answer_line(report.iteration, answer));
  }
}

void LogSink::note(const RunNote& note) {
  if (note.text.empty()) return;
  const bool has_time = note.kind == RunNote::Kind::kSignal || note.kind == RunNote::Kind::kExit ||
                        note.kind == RunNote::Kind::kTrained;
  if (has_time) {
    log_info("{}", datetime_line(note.text, std::chrono::system_clock::now()));
    return;
  }
  log_line(note.is_warning() ? LogLevel::kWarning : LogLevel::kInfo, note.text);
}

}  // namespace phalanx
