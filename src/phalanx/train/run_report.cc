#include "phalanx/train/run_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/flags/views.h"
#include "phalanx/observe/process_memory.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/train/flags.h"

namespace phalanx {
namespace {

std::unique_ptr<MetricsFile> open_metrics(const TrainConfig& config, const RunLength& length,
                                          std::int64_t loaded_iteration) {
  // A run that was finished before evaluates again, but its lines are in the file.
  const bool is_finished =
      loaded_iteration >= length.last_iteration() && !length.begin().evaluation_is_due;
  if (config.run.save.empty() || is_finished) return nullptr;
  try {
    return std::make_unique<MetricsFile>(std::filesystem::path(config.run.save) / kMetricsName);
  } catch (const OutputError& error) {
    log_warning("{}; the run goes on without metrics", error.what());
    return nullptr;
  }
}

// Megatron's list of what the flags have come to.
std::string arguments_of(TrainConfig config) {
  FlagSet flags("", "");
  add_train_flags(flags, config);
  flags.add({.name = "--nproc"}, &config.layout.world_size);
  return arguments_text(flags.rows());
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
  std::vector<std::string> saved;
  for (const std::int64_t bytes : plan.saved_per_microbatch) saved.push_back(format_bytes(bytes));
  text += fmt::format("  saved per microbatch {}, microbatches in flight {}",
                      fmt::join(saved, " and "), fmt::join(plan.microbatches_in_flight, " and "));
  return text;
}

RunReport::RunReport(const RunSetup& setup, const MemoryPlan& plan, int rank,
                     std::int64_t loaded_iteration)
    : config_(setup.config),
      length_(setup.length),
      speaks_(rank == 0),
      peak_bytes_(setup.peak_bytes),
      model_flops_per_token_(gpt_flops_per_token(setup.model, config_.data.seq_length)),
      peak_flops_(1e9 * setup.hosts() * setup.peak.of(setup.products.products)),
      metrics_(speaks_ ? open_metrics(config_, length_, loaded_iteration) : nullptr),
      progress_(length_.last_iteration()) {
  if (speaks_) print_start(setup, plan, loaded_iteration);
}

void RunReport::print_start(const RunSetup& setup, const MemoryPlan& plan,
                            std::int64_t loaded_iteration) const {
  log_info("{}", arguments_of(setup.config));
  const GridSizes& sizes = setup.grid.sizes();
  const std::int64_t vocabulary = setup.tokenizer->vocab_size();
  log_info(
      "phalanx {}: world size {}{}, {} threads per rank{}", PHALANX_VERSION,
      setup.grid.world_size(), setup.hosts() > 1 ? fmt::format(" on {} hosts", setup.hosts()) : "",
      config_.layout.threads_per_rank,
      config_.layout.threads_reason.empty() ? ""
                                            : fmt::format(" ({})", config_.layout.threads_reason));
  if (setup.grid.world_size() > 1) {
    log_info(
        "> tensor-model-parallel size {}{}, pipeline-model-parallel size {}, data-parallel "
        "size {}{}",
        sizes.tensor, config_.layout.sequence_parallel ? " with sequence parallelism" : "",
        sizes.pipeline, sizes.data,
        config_.layout.use_distributed_optimizer ? " with a distributed optimizer" : "");
  }
  if (sizes.pipeline > 1) {
    const Placement& placement = setup.programs.placement();
    log_info("> pipeline schedule: {}, {} stages of {} ranks ({})",
             config_.layout.pipeline_schedule, placement.stages(), placement.ranks(),
             name_of(placement.shape()));
  }
  log_info("> number of parameters: {}", format_count(gpt_parameters(setup.model)));
  log_info(" > padded vocab (size: {}) with {} dummy tokens (new size: {})", vocabulary,
           setup.model.padded_vocabulary - vocabulary, setup.model.padded_vocabulary);
  log_info("> learning rate decay style: {}", config_.optimizer.lr_decay_style);
  log_info("> loss average: {}, attention: {}, data order: {}", config_.optimizer.loss_average,
           config_.model.attention_backend, config_.data.data_order);
  if (config_.layout.recompute_granularity == "selective" &&
      config_.model.attention_backend == "fused") {
    log_info(
        "> --recompute-granularity selective: fused attention stores nothing that could be "
        "computed again; it matters with --attention-backend unfused");
  }
  log_info("> CPU target: {}, affinity: {}", cpu::describe_active_target(), setup.affinity.text);
  log_info("> matrix products: {} ({})", setup.products.name(), setup.products.reason);
  log_info("> peak: {}{}", cpu::to_text(setup.peak), setup.hosts() > 1 ? " on each host" : "");
  log_info("> memory plan{}:\n{}", setup.grid.world_size() > 1 ? " of rank 0" : "",
           memory_table(plan));
  if (length_.left_over() > 0) {
    log_info("> {} of {} samples are left over: only whole global batches of {} are trained",
             length_.left_over(), config_.run.train_samples, config_.layout.global_batch_size);
  }
  if (loaded_iteration < length_.last_iteration()) {
    log_info("training from iteration {} to {} ...", loaded_iteration, length_.last_iteration());
  } else {
    log_info("nothing is left to train after iteration {}", loaded_iteration);
  }
}

void RunReport::iteration(const RunState& state, const StepResult& step, std::int64_t global_batch,
                          double next_lr, double seconds) {
  if (!speaks_) return;
  const std::array<NamedLoss, 1> losses = {{{"lm loss", step.loss}}};
  interval_.add(losses, seconds, step.skipped);
  const std::int64_t tokens = global_batch * config_.data.seq_length;
  const double tokens_per_second = static_cast<double>(tokens) / seconds;
  write_metrics(
      IterationMetrics{.iteration = state.iteration,
                       .consumed_samples = state.consumed_train_samples,
                       .lm_loss = static_cast<float>(step.loss),
                       .learning_rate = next_lr,
                       .grad_norm = step.grad_norm,
                       .loss_scale = state.loss_scaler.scale,
                       .skipped = step.skipped,
                       .elapsed_s = seconds,
                       .tokens_per_second = tokens_per_second,
                       .model_flops_per_second = model_flops_per_token_ * tokens_per_second,
                       .peak_bytes = peak_bytes_,
                       .rss_bytes = peak_resident_bytes()});
  if (state.iteration % config_.run.log_interval == 0) {
    pause();
    print_line(state, step, global_batch, next_lr);
  }
  progress_.advance(state.iteration, step.loss, tokens, seconds);
}

void RunReport::print_line(const RunState& state, const StepResult& step, std::int64_t global_batch,
                           double next_lr) {
  const LogInterval::Summary summary = interval_.take();
  const double tokens_per_second = static_cast<double>(global_batch * config_.data.seq_length) *
                                   1e3 / summary.milliseconds_per_iteration;
  const double flops = model_flops_per_token_ * tokens_per_second;
  TrainingLine line;
  line.time = std::chrono::system_clock::now();
  line.iteration = state.iteration;
  line.train_iterations = length_.last_iteration();
  line.consumed_samples = state.consumed_train_samples;
  line.milliseconds_per_iteration = summary.milliseconds_per_iteration;
  line.learning_rate = next_lr;
  line.global_batch_size = global_batch;
  line.losses = summary.losses;
  line.loss_scale = state.loss_scaler.scale;
  // As Megatron: what was skipped has neither.
  if (!step.skipped && !std::isnan(step.grad_norm)) line.grad_norm = step.grad_norm;
  if (!step.skipped && config_.optimizer.log_num_zeros_in_grad) {
    line.zeros_in_gradients = step.zeros_in_grad;
  }
  line.skipped_iterations = summary.skipped_iterations;
  line.nan_iterations = summary.nan_iterations;
  if (config_.run.log_throughput) {
    line.tera_flops_per_second = flops / 1e12 / static_cast<double>(config_.layout.world_size);
  }
  log_info("{}", format_training_line(line));
  log_info("   {:.0f} tokens/s, {:.1f} GFLOP/s of {:.0f} ({:.0f} % of the peak)", tokens_per_second,
           flops / 1e9, peak_flops_ / 1e9, 100.0 * flops / peak_flops_);
}

void RunReport::evaluation(const RunState& state, SplitKind kind, const std::string& place,
                           double loss) {
  if (!speaks_) return;
  pause();
  const std::array<NamedLoss, 1> losses = {{{"lm loss", loss}}};
  log_info("{}", format_evaluation_block(place, losses));
  write_metrics(EvaluationMetrics{.iteration = state.iteration,
                                  .consumed_samples = state.consumed_train_samples,
                                  .eval = name_of(kind),
                                  .lm_loss = static_cast<float>(loss)});
}

template <typename Metrics>
void RunReport::write_metrics(const Metrics& metrics) {
  if (!metrics_) return;
  try {
    metrics_->write(metrics);
  } catch (const OutputError& error) {
    // The run is worth more than its diary.
    pause();
    log_warning("{}; the run goes on without metrics", error.what());
    metrics_.reset();
  }
}

void RunReport::pause() {
  if (speaks_) progress_.clear();
}

}  // namespace phalanx
