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
  std::vector<std::string> saved;
  for (const std::int64_t bytes : plan.saved_per_microbatch) saved.push_back(format_bytes(bytes));
  text += fmt::format("  saved per microbatch {}, microbatches in flight {}",
                      fmt::join(saved, " and "), fmt::join(plan.microbatches_in_flight, " and "));
  return text;
}

RunReport::RunReport(const RunSetup& setup, const MemoryPlan& plan, int rank,
                     std::int64_t loaded_iteration)
    : config_(setup.config),
      speaks_(rank == setup.grid.world_size() - 1),
      peak_bytes_(setup.peak_bytes()),
      model_flops_per_step_(gpt_flops_per_token(setup.model, config_.seq_length) *
                            static_cast<double>(config_.global_batch_size * config_.seq_length)),
      peak_flops_(1e9 * (setup.products.products == cpu::ProductPrecision::kBf16
                             ? setup.peak.bf16_gflops
                             : setup.peak.fp32_gflops)),
      metrics_(speaks_ ? open_metrics(config_, loaded_iteration) : nullptr),
      progress_(train_iterations(config_)) {
  if (rank == 0) print_start(setup, plan, loaded_iteration);
}

void RunReport::print_start(const RunSetup& setup, const MemoryPlan& plan,
                            std::int64_t loaded_iteration) const {
  const GridSizes& sizes = setup.grid.sizes();
  const std::int64_t vocabulary = setup.tokenizer->vocab_size();
  log_info("phalanx {}: world size {}, {} threads per rank", PHALANX_VERSION,
           setup.grid.world_size(), config_.threads_per_rank);
  if (setup.grid.world_size() > 1) {
    log_info(
        "> tensor-model-parallel size {}{}, pipeline-model-parallel size {}, data-parallel "
        "size {}{}",
        sizes.tensor, config_.sequence_parallel ? " with sequence parallelism" : "", sizes.pipeline,
        sizes.data, config_.use_distributed_optimizer ? " with a distributed optimizer" : "");
  }
  if (sizes.pipeline > 1) {
    const Placement& placement = setup.programs.placement();
    log_info("> pipeline schedule: {}, {} stages of {} ranks ({})", config_.pipeline_schedule,
             placement.stages(), placement.ranks(), name_of(placement.shape()));
  }
  log_info("> number of parameters: {}", format_count(gpt_parameters(setup.model)));
  log_info(" > padded vocab (size: {}) with {} dummy tokens (new size: {})", vocabulary,
           setup.model.padded_vocabulary - vocabulary, setup.model.padded_vocabulary);
  log_info("> learning rate decay style: {}", config_.lr_decay_style);
  log_info("> loss average: {}, attention: {}, data order: {}", config_.loss_average,
           config_.attention_backend, config_.data_order);
  if (config_.recompute_granularity == "selective" && config_.attention_backend == "fused") {
    log_info(
        "> --recompute-granularity selective: fused attention stores nothing that could be "
        "computed again; it matters with --attention-backend unfused");
  }
  log_info("> matrix products: {} ({})", setup.products.name(), setup.products.reason);
  log_info("> peak: {:.0f} GFLOP/s fp32{}", setup.peak.fp32_gflops,
           setup.peak.bf16_gflops > 0.0
               ? fmt::format(", {:.0f} GFLOP/s bf16", setup.peak.bf16_gflops)
               : "");
  log_info("> memory plan{}:\n{}", setup.grid.world_size() > 1 ? " of rank 0" : "",
           memory_table(plan));
  log_info("training from iteration {} to {} ...", loaded_iteration, train_iterations(config_));
}

void RunReport::iteration(const RunState& state, const StepResult& step, double next_lr,
                          double seconds) {
  if (!speaks_) return;
  const std::array<NamedLoss, 1> losses = {{{"lm loss", step.loss}}};
  interval_.add(losses, seconds, step.skipped);
  const std::int64_t tokens = config_.global_batch_size * config_.seq_length;
  if (metrics_) {
    metrics_->write({.iteration = state.iteration,
                     .consumed_samples = state.consumed_train_samples,
                     .lm_loss = static_cast<float>(step.loss),
                     .learning_rate = next_lr,
                     .grad_norm = step.grad_norm,
                     .loss_scale = state.loss_scaler.scale,
                     .skipped = step.skipped,
                     .elapsed_s = seconds,
                     .tokens_per_second = static_cast<double>(tokens) / seconds,
                     .model_flops_per_second = model_flops_per_step_ / seconds,
                     .peak_bytes = peak_bytes_,
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
  line.loss_scale = state.loss_scaler.scale;
  // As Megatron: what was skipped has neither.
  if (!step.skipped && !std::isnan(step.grad_norm)) line.grad_norm = step.grad_norm;
  if (!step.skipped && config_.log_num_zeros_in_grad) {
    line.zeros_in_gradients = step.zeros_in_grad;
  }
  line.skipped_iterations = summary.skipped_iterations;
  line.nan_iterations = summary.nan_iterations;
  if (config_.log_throughput) {
    line.tera_flops_per_second =
        model_flops_per_step_ / seconds / 1e12 / static_cast<double>(config_.world_size);
  }
  log_info("{}", format_training_line(line));
  const double flops = model_flops_per_step_ / seconds;
  log_info("   {:.0f} tokens/s, {:.1f} GFLOP/s of {:.0f} ({:.0f} % of the peak)",
           static_cast<double>(config_.global_batch_size * config_.seq_length) / seconds,
           flops / 1e9, peak_flops_ / 1e9, 100.0 * flops / peak_flops_);
}

void RunReport::evaluation(const RunState& state, SplitKind kind, const std::string& place,
                           double loss) {
  if (!speaks_) return;
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

void RunReport::pause() {
  if (speaks_) progress_.clear();
}

}  // namespace phalanx
