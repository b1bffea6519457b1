#include "phalanx/train/run_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/observe/process_memory.h"

namespace phalanx {
namespace {

std::unique_ptr<MetricsFile> open_metrics(const TrainConfig& config,
                                          std::int64_t loaded_iteration) {
  // A run that was finished before evaluates again, but its lines are in the file.
  if (config.save.empty() || loaded_iteration >= train_iterations(config)) return nullptr;
  std::error_code fault;
  std::filesystem::create_directories(config.save, fault);
  if (fault) throw OutputError("--save {}: cannot create: {}", config.save, fault.message());
  return std::make_unique<MetricsFile>(std::filesystem::path(config.save) / "metrics.jsonl",
                                       loaded_iteration);
}

}  // namespace

std::string memory_table(const MemoryPlan& plan) {
  const std::array<std::pair<const char*, std::int64_t>, 7> rows = {{
      {"parameters", plan.parameters},
      {"main parameters", plan.main_parameters},
      {"gradients", plan.gradients},
      {"optimizer", plan.optimizer},
      {"saved activations", plan.saved},
      {"workspace", plan.workspace},
      {"communication", plan.communication},
  }};
  std::string text;
  for (const auto& [name, bytes] : rows) {
    text +=
        fmt::format("  {:<20} {:>12} {:>20} B\n", name, format_bytes(bytes), format_count(bytes));
  }
  text += fmt::format("  {:<20} {:>12} {:>20} B\n", "total", format_bytes(plan.total),
                      format_count(plan.total));
  text += fmt::format("  {:<20} {:>12} {:>20} B\n", "libraries, at most",
                      format_bytes(plan.library_bound), format_count(plan.library_bound));
  text += fmt::format("  saved per microbatch {}, microbatches in flight {}",
                      format_bytes(plan.saved_per_microbatch), plan.microbatches_in_flight);
  return text;
}

RunReport::RunReport(const TrainConfig& config, const GptConfig& model, const MemoryPlan& plan,
                     const cpu::ProductChoice& products, const Tokenizer& tokenizer,
                     std::int64_t loaded_iteration)
    : config_(config),
      model_flops_per_step_(gpt_flops_per_token(model, config.seq_length) *
                            static_cast<double>(config.global_batch_size * config.seq_length)),
      metrics_(open_metrics(config, loaded_iteration)),
      progress_(train_iterations(config)) {
  const auto threads = static_cast<int>(config.threads_per_rank);
  const cpu::Peak peak = cpu::measure_peak(threads);
  peak_flops_ = 1e9 * (products.products == cpu::ProductPrecision::kBf16 ? peak.bf16_gflops
                                                                         : peak.fp32_gflops);
  log_info("phalanx {}: world size 1, {} threads", PHALANX_VERSION, threads);
  log_info("> number of parameters: {}", format_count(plan.model_parameters));
  log_info(" > padded vocab (size: {}) with {} dummy tokens (new size: {})", tokenizer.vocab_size(),
           model.padded_vocabulary - tokenizer.vocab_size(), model.padded_vocabulary);
  log_info("> learning rate decay style: {}", config.lr_decay_style);
  log_info("> loss average: {}, attention: {}, data order: {}", config.loss_average,
           config.attention_backend, config.data_order);
  log_info("> matrix products: {} ({})", products.name(), products.reason);
  log_info("> peak: {:.0f} GFLOP/s fp32{}", peak.fp32_gflops,
           peak.bf16_gflops > 0.0 ? fmt::format(", {:.0f} GFLOP/s bf16", peak.bf16_gflops) : "");
  log_info("> memory plan:\n{}", memory_table(plan));
  log_info("training from iteration {} to {} ...", loaded_iteration, train_iterations(config));
}

void RunReport::iteration(const RunState& state, const StepResult& step, double next_lr,
                          double seconds, const RankArenas& arenas) {
  const std::array<NamedLoss, 1> losses = {{{"lm loss", step.loss}}};
  interval_.add(losses, seconds, step.skipped);
  const std::int64_t tokens = config_.global_batch_size * config_.seq_length;
  if (metrics_) {
    const auto marks = arenas.high_water();
    std::int64_t peak_bytes = 0;
    for (const auto mark : marks) peak_bytes += mark;
    metrics_->write({.iteration = state.iteration,
                     .consumed_samples = state.consumed_train_samples,
                     .lm_loss = static_cast<float>(step.loss),
                     .learning_rate = next_lr,
                     .grad_norm = step.grad_norm,
                     .loss_scale = 1.0,
                     .skipped = step.skipped,
                     .elapsed_s = seconds,
                     .tokens_per_second = static_cast<double>(tokens) / seconds,
                     .model_flops_per_second = model_flops_per_step_ / seconds,
                     .peak_bytes = peak_bytes,
                     .rss_bytes = peak_resident_bytes()});
  }
  if (state.iteration % config_.log_interval == 0) {
    pause();
    print_line(state, step, next_lr);
  }
  progress_.advance(state.iteration, step.loss, tokens, seconds);
}

void RunReport::print_line(const RunState& state, const StepResult& step, double next_lr) {
  const LogInterval::Summary summary = interval_.take();
  const double seconds = summary.milliseconds_per_iteration / 1e3;
  TrainingLine line;
  line.time = std::chrono::system_clock::now();
  line.iteration = state.iteration;
  line.train_iterations = train_iterations(config_);
  line.consumed_samples = state.consumed_train_samples;
  line.milliseconds_per_iteration = summary.milliseconds_per_iteration;
  line.learning_rate = next_lr;
  line.global_batch_size = config_.global_batch_size;
  line.losses = summary.losses;
  line.loss_scale = 1.0;
  line.grad_norm = step.grad_norm;
  line.skipped_iterations = summary.skipped_iterations;
  line.nan_iterations = summary.nan_iterations;
  if (config_.log_throughput) line.tera_flops_per_second = model_flops_per_step_ / seconds / 1e12;
  log_info("{}", format_training_line(line));
  const double flops = model_flops_per_step_ / seconds;
  log_info("   {:.0f} tokens/s, {:.1f} GFLOP/s of {:.0f} ({:.0f} % of the peak)",
           static_cast<double>(config_.global_batch_size * config_.seq_length) / seconds,
           flops / 1e9, peak_flops_ / 1e9, 100.0 * flops / peak_flops_);
}

void RunReport::evaluation(const RunState& state, SplitKind kind, const std::string& place,
                           double loss) {
  pause();
  const std::array<NamedLoss, 1> losses = {{{"lm loss", loss}}};
  log_info("{}", format_evaluation_block(place, losses));
  if (metrics_) {
    metrics_->write(EvaluationMetrics{.iteration = state.iteration,
                                      .consumed_samples = state.consumed_train_samples,
                                      .eval = name_of(kind),
                                      .lm_loss = static_cast<float>(loss)});
  }
}

void RunReport::pause() { progress_.clear(); }

}  // namespace phalanx
