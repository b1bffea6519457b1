#include "phalanx/train/run_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/flags/views.h"
#include "phalanx/observe/process_memory.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/train/flags.h"

namespace phalanx {
namespace {

// Megatron's list of what the flags have come to.
std::string arguments_of(TrainConfig config) {
  FlagSet flags("", "");
  add_train_flags(flags, config);
  flags.add({.name = "--nproc"}, &config.layout.world_size);
  return arguments_text(flags.rows());
}

// "16 samples to iteration 61, 32 to 92, ...": all of them where they are few.
std::string describe(const std::vector<RunLength::Stretch>& stretches) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool is_last = i + 1 == stretches.size();
    if (i >= kShown && !is_last) continue;
    if (i > 0) text += is_last && stretches.size() > kShown + 1 ? ", ... " : ", ";
    text += fmt::format("{}{} to iteration {}", stretches[i].global_batch, i == 0 ? " samples" : "",
                        stretches[i].end());
  }
  return text;
}

// Which program it is, where it is one of several.
std::string largest_program(const MemoryPlan& plan) {
  if (plan.programs.size() <= 2) return "";
  const ProgramMemory& largest = plan.programs[plan.largest];
  return fmt::format(
      "  the most of {} programs: that of {}{} microbatches, {}\n", plan.programs.size(),
      largest.size.iterations > 1 ? fmt::format("{} iterations of ", largest.size.iterations) : "",
      largest.size.microbatches, format_bytes(largest.total()));
}

// What the run is made of.
std::vector<std::string> start_lines(const RunSetup& setup, const MemoryPlan& plan,
                                     std::int64_t loaded_iteration) {
  const TrainConfig& config = setup.config;
  const RunLength& length = setup.length;
  std::vector<std::string> lines;
  const auto add = [&lines]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    lines.push_back(fmt::format(format, std::forward<Args>(args)...));
  };
  add("{}", arguments_of(setup.config));
  const GridSizes& sizes = setup.grid.sizes();
  const std::int64_t vocabulary = setup.tokenizer->vocab_size();
  add("phalanx {}: world size {}{}, {} threads per rank{}", PHALANX_VERSION,
      setup.grid.world_size(), setup.hosts() > 1 ? fmt::format(" on {} hosts", setup.hosts()) : "",
      config.layout.threads_per_rank,
      config.layout.threads_reason.empty() ? ""
                                           : fmt::format(" ({})", config.layout.threads_reason));
  if (setup.grid.world_size() > 1) {
    add("> tensor-model-parallel size {}{}, pipeline-model-parallel size {}, data-parallel "
        "size {}{}",
        sizes.tensor, config.layout.sequence_parallel ? " with sequence parallelism" : "",
        sizes.pipeline, sizes.data,
        config.layout.use_distributed_optimizer ? " with a distributed optimizer" : "");
  }
  if (sizes.pipeline > 1) {
    const Placement& placement = setup.programs.placement();
    add("> pipeline schedule: {}, {} stages of {} ranks ({})", config.layout.pipeline_schedule,
        placement.stages(), placement.ranks(), name_of(placement.shape()));
  }
  add("> number of parameters: {}", format_count(gpt_parameters(setup.model)));
  add(" > padded vocab (size: {}) with {} dummy tokens (new size: {})", vocabulary,
      setup.model.padded_vocabulary - vocabulary, setup.model.padded_vocabulary);
  add("> learning rate decay style: {}", name_of(setup.schedule.decay_style));
  add("> loss average: {}, attention: {}, data order: {}", config.optimizer.loss_average,
      config.model.attention_backend, config.data.data_order);
  if (config.layout.recompute_granularity == "selective" &&
      config.model.attention_backend == "fused") {
    add("> --recompute-granularity selective: fused attention stores nothing that could be "
        "computed again; it matters with --attention-backend unfused");
  }
  add("> CPU target: {}, affinity: {}", cpu::describe_active_target(), setup.affinity.text);
  add("> matrix products: {} ({})", setup.products.name(), setup.products.reason);
  add("> peak: {}{}", cpu::to_text(setup.peak), setup.hosts() > 1 ? " on each host" : "");
  add("> memory plan{}:\n{}", setup.grid.world_size() > 1 ? " of rank 0" : "", memory_table(plan));
  if (config.run.train_samples > 0) {
    add("setting training iterations to {}", length.last_iteration());
  }
  if (length.batches().last() != config.layout.global_batch_size) {
    add("> --global-batch-size {} is rounded down to {}: --decrease-batch-size-if-needed",
        config.layout.global_batch_size, length.batches().last());
  }
  if (length.stretches().size() > 1) {
    add("> global batch size: {}", describe(length.stretches()));
  }
  if (length.left_over() > 0) {
    const std::int64_t trained = config.run.train_samples - length.left_over();
    add("> {} of {} samples are left over: only whole global batches are trained, the next of {}",
        length.left_over(), config.run.train_samples, length.global_batch(trained));
  }
  if (loaded_iteration < length.last_iteration()) {
    add("training from iteration {} to {} ...", loaded_iteration, length.last_iteration());
  } else {
    add("nothing is left to train after iteration {}", loaded_iteration);
  }
  return lines;
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
  text += largest_program(plan);
  text += fmt::format("  saved per microbatch {}, microbatches in flight {}",
                      fmt::join(saved, " and "), fmt::join(plan.microbatches_in_flight, " and "));
  return text;
}

RunReport::RunReport(const RunSetup& setup, const MemoryPlan& plan, const RunPosition& begin,
                     RunSinks* sinks)
    : config_(setup.config),
      sinks_(sinks),
      peak_bytes_(setup.peak_bytes),
      model_flops_per_token_(gpt_flops_per_token(setup.model, config_.data.seq_length)) {
  if (sinks_ == nullptr) return;
  const bool is_over = begin.iteration >= setup.length.last_iteration();
  sinks_->begin({.arguments = argument_values(config_),
                 .lines = start_lines(setup, plan, begin.iteration),
                 .iteration = begin.iteration,
                 .consumed_samples = begin.consumed_train_samples,
                 .last_iteration = setup.length.last_iteration(),
                 .is_finished = is_over && !setup.length.begin().evaluation_is_due,
                 .world_size = setup.grid.world_size(),
                 .peak_flops = 1e9 * setup.hosts() * setup.peak.of(setup.products.products)});
}

void RunReport::iteration(const RunState& state, const StepResult& step, std::int64_t global_batch,
                          const LearningRates& next, double seconds) {
  if (sinks_ == nullptr) return;
  const std::int64_t tokens = global_batch * config_.data.seq_length;
  IterationReport report;
  report.iteration = state.iteration;
  report.consumed_samples = state.consumed_train_samples;
  report.global_batch_size = global_batch;
  report.tokens = tokens;
  report.model_flops = model_flops_per_token_ * static_cast<double>(tokens);
  report.losses = {{"lm loss", step.loss}};
  report.learning_rate = next.rate;
  report.decoupled_learning_rate = next.decoupled;
  report.loss_scale = state.loss_scaler.scale;
  report.grad_norm = step.grad_norm;
  if (config_.optimizer.log_num_zeros_in_grad) report.zeros_in_gradients = step.zeros_in_grad;
  report.parameters_norm = step.parameters_norm;
  report.skipped_samples = state.left_out_samples;
  report.skipped = step.skipped;
  report.seconds = seconds;
  report.peak_bytes = peak_bytes_;
  report.rss_bytes = peak_resident_bytes();
  report.is_logged = state.iteration % config_.run.log_interval == 0;
  sinks_->iteration(report);
}

void RunReport::evaluation(const RunState& state, SplitKind kind, const std::string& place,
                           double loss) {
  if (sinks_ == nullptr) return;
  sinks_->evaluation({.iteration = state.iteration,
                      .consumed_samples = state.consumed_train_samples,
                      .split = std::string(name_of(kind)),
                      .place = place,
                      .losses = {{"lm loss", loss}}});
}

void RunReport::note(RunNote::Kind kind, std::int64_t iteration, std::string text) {
  if (sinks_ != nullptr) {
    sinks_->note({.kind = kind, .iteration = iteration, .text = std::move(text)});
  }
}

void RunReport::end(const RunEnding& ending) {
  if (sinks_ != nullptr) sinks_->end(ending);
}

}  // namespace phalanx
