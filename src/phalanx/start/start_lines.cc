#include "phalanx/start/start_lines.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "phalanx/base/numeric.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/views.h"
#include "phalanx/metrics/timing_log.h"
#include "phalanx/metrics/training_log.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/rehearsal/memory_table.h"
#include "phalanx/settings/adapter_settings.h"
#include "phalanx/settings/disk_rates.h"
#include "phalanx/settings/trained_parameters.h"
#include "phalanx/start/openmp_settings.h"

namespace phalanx {
namespace {

// Megatron's list of all arguments and their values.
std::string arguments_of(TrainConfig config) {
  FlagSet flags("", "");
  add_train_flags(flags, config);
  flags.add({.name = "--nproc"}, &config.layout.world_size);
  return arguments_text(flags.rows());
}

// "16 samples to iteration 61, 32 to 92, ...": all stretches where there are few.
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

class Lines {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

// Megatron's lines from the sizes of the groups to the model.
void add_initialisation(const RunSetup& setup, Lines& lines) {
  const GridSizes& sizes = setup.grids.dense.sizes();
  lines.add(
      "using world size: {}, data-parallel size: {}, context-parallel size: {}, "
      "tensor-model-parallel size: {}, pipeline-model-parallel size: {}",
      setup.grids.dense.world_size(), sizes.data, setup.config.layout.context_parallel_size,
      sizes.tensor, sizes.pipeline);
  lines.add("> initializing tensor model parallel with size {}", sizes.tensor);
  lines.add("> initializing pipeline model parallel with size {}", sizes.pipeline);
  lines.add("> setting random seeds to {} ...", setup.config.run.seed);
  lines.add("time to initialize megatron (seconds): {:.3f}",
            std::chrono::duration<double>(setup.start_time).count());
  lines.add("{}", datetime_line("after megatron is initialized", setup.initialised));
}

void add_model(const RunSetup& setup, Lines& lines) {
  lines.add("building {} model ...", family_of(setup.config).title());
  for (const int rank : ranks_of_places(setup.grids)) {
    const GridCoordinates at = setup.grids.dense.coordinates(rank);
    if (at.data > 0 || at.context > 0) continue;  // as the first, but for other experts
    lines.add(" > number of parameters on (tensor, pipeline) model parallel rank ({}, {}): {}",
              at.tensor, at.pipeline, setup.ranks[static_cast<std::size_t>(rank)].parameters);
  }
}

// What is trained, where that is not the whole model.
void add_trained(const RunSetup& setup, Lines& lines) {
  const TrainConfig& config = setup.config;
  const OptimizerConfig& o = config.optimizer;
  const bool has_adapters = config.lora.rank > 0;
  if (!has_adapters && o.trainable.empty() && o.freeze.empty()) return;
  const std::string trained = format_count(trained_share(config, *setup.model).parameters);
  if (!has_adapters) {
    lines.add(" > trained of them: {}", trained);
    return;
  }
  std::vector<std::string_view> parts;
  for (const nn::AdapterPart part : adapter_parts(config.lora, config.model)) {
    parts.push_back(name_of(part));
  }
  lines.add(" > LoRA rank {} of {}{}: {} parameters trained of {}", config.lora.rank,
            fmt::join(parts, " "),
            config.lora.layers.empty() ? "" : " in layers " + config.lora.layers, trained,
            format_count(setup.model->parameters()));
}

void add_data(const RunSetup& setup, Lines& lines) {
  const SampleCounts counts = setup.data->counts();
  lines.add("> building train, validation, and test datasets for {} ...",
            family_of(setup.config).title());
  lines.add(" > datasets target sizes (minimum size):");
  lines.add("    train:      {}", counts.train);
  lines.add("    validation: {}", counts.valid);
  lines.add("    test:       {}", counts.test);
  lines.add("> finished creating {} datasets ...", family_of(setup.config).title());
}

// Megatron's lines from the end of the preparation to the first step.
void add_end_of_setup(const RunSetup& setup, std::span<const TimerRow> times,
                      std::int64_t loaded_iteration, Lines& lines) {
  const auto now = std::chrono::system_clock::now();
  const std::string rows = format_times(setup.config.run.timing_log_option, times);
  lines.add("{}", datetime_line("after dataloaders are built", now));
  lines.add("done with setup ...");
  if (!rows.empty()) lines.add("{}", rows);
  const std::int64_t last = setup.length.last_iteration();
  if (loaded_iteration >= last) {
    lines.add("nothing is left to train after iteration {}", loaded_iteration);
    return;
  }
  lines.add("training ...");
  lines.add("training from iteration {} to {} ...", loaded_iteration, last);
  lines.add("{}", datetime_line("before the start of training step", now));
}

// Two lower bounds of a step's time: its files and its arithmetic.
std::string disk_text(const RunSetup& setup) {
  return fmt::format("{}{}; its arithmetic takes {:.3g} s at the peak",
                     setup.grids.dense.world_size() > 1 ? "of all ranks of a host " : "",
                     to_text(*setup.disk, setup.config.layout), setup.arithmetic_seconds());
}

// Where ranks share the rows of samples.
std::string context_text(const LayoutConfig& layout) {
  if (layout.context_parallel_size == 1) return "";
  return fmt::format("context-parallel size {} ({}{}), ", layout.context_parallel_size,
                     fmt::join(layout.cp_comm_type, " "),
                     layout.context_parallel_cut == "documents" ? ", cut by documents" : "");
}

std::string sharding_text(const LayoutConfig& layout) {
  if (!layout.use_distributed_optimizer) return "";
  std::string text = " with a distributed optimizer";
  if (layout.zero_stage > 1) text += fmt::format(" (ZeRO stage {})", layout.zero_stage);
  if (layout.num_distributed_optimizer_instances > 1) {
    text += fmt::format(" in {} copies", layout.num_distributed_optimizer_instances);
  }
  return text;
}

}  // namespace

std::vector<std::string> start_lines(const RunSetup& setup, const MemoryPlan& plan,
                                     std::int64_t loaded_iteration,
                                     std::span<const TimerRow> times) {
  const TrainConfig& config = setup.config;
  const RunLength& length = setup.length;
  Lines lines;
  const auto add = [&lines]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    lines.add(format, std::forward<Args>(args)...);
  };
  add("{}", arguments_of(setup.config));
  add_initialisation(setup, lines);
  const GridSizes& sizes = setup.grids.dense.sizes();
  const VocabularySize vocabulary = setup.model->vocabulary();
  add("phalanx {}: world size {}{}, {} threads per rank{}", PHALANX_VERSION,
      setup.grids.dense.world_size(),
      setup.hosts() > 1 ? fmt::format(" on {} hosts", setup.hosts()) : "",
      config.layout.threads_per_rank,
      config.layout.threads_reason.empty() ? ""
                                           : fmt::format(" ({})", config.layout.threads_reason));
  if (setup.grids.dense.world_size() > 1) {
    add("> tensor-model-parallel size {}{}, {}pipeline-model-parallel size {}, data-parallel "
        "size {}{}",
        sizes.tensor, config.layout.sequence_parallel ? " with sequence parallelism" : "",
        context_text(config.layout), sizes.pipeline, sizes.data, sharding_text(config.layout));
  }
  if (sizes.pipeline > 1) {
    const Placement& placement = setup.programs.placement();
    add("> pipeline schedule: {}, {} stages of {} ranks ({})", config.layout.pipeline_schedule,
        placement.stages(), placement.ranks(), name_of(placement.shape()));
  }
  add_model(setup, lines);
  add("> number of parameters: {}", format_count(setup.model->parameters()));
  if (config.experts.num_experts > 0) {
    add(" > active of them, for a token: {}", format_count(setup.model->active_parameters()));
  }
  add_trained(setup, lines);
  add(" > padded vocab (size: {}) with {} dummy tokens (new size: {})", vocabulary.ids,
      vocabulary.padded - vocabulary.ids, vocabulary.padded);
  if (vocabulary.ids > setup.tokenizer->vocab_size()) {
    add(" > {} ids of the model are beyond the tokenizer's {}: classes like the others",
        vocabulary.ids - setup.tokenizer->vocab_size(), setup.tokenizer->vocab_size());
  }
  add("> learning rate decay style: {}", name_of(setup.schedule.decay_style));
  add("> loss average: {}, attention: {}, data order: {}", config.optimizer.loss_average,
      config.model.attention_backend, config.data.data_order);
  if (config.layout.recompute_granularity == "selective" &&
      config.model.attention_backend == "fused") {
    add("> --recompute-granularity selective: fused attention stores nothing that could be "
        "computed again; it matters with --attention-backend unfused");
  }
  add("> CPU target: {}, affinity: {}", cpu::describe_active_target(), setup.affinity.text);
  if (const auto unused = unused_openmp_variables(); !unused.empty()) {
    add("> {} {} set and {} no effect here: threads are not OpenMP's", fmt::join(unused, ", "),
        unused.size() == 1 ? "is" : "are", unused.size() == 1 ? "has" : "have");
  }
  add("> matrix products: {}", setup.device.products_text());
  add("> peak: {}{}; MFU and HFU are shares of {:.0f} GFLOP/s", setup.device.peak_text(),
      setup.hosts() > 1 ? " on each host" : "", setup.peak_flops() / 1e9);
  add("> memory plan{}:\n{}", setup.grids.dense.world_size() > 1 ? " of rank 0" : "",
      memory_table(plan));
  if (config.run.async_save) {
    std::string text = fmt::format(
        "> saves go on while training goes on: of the {} that rank 0 saves, {} can be copied "
        "before "
        "they are written",
        format_bytes(plan.saved_bytes), format_bytes(plan.bytes["snapshot"]));
    if (const auto rates = disk_rates(config.layout)) {
      text +=
          fmt::format("; alone on a disk of {:.3g} GB/s they take {:.3g} s", rates->written / 1e9,
                      static_cast<double>(plan.saved_bytes) / rates->written);
    }
    add("{}", text);
  }
  if (setup.disk) add("> disk: a step {}", disk_text(setup));
  if (setup.forecast) add("> {}\n{}", to_text(*setup.forecast), setup.forecast->basis);
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
  add("{}", datetime_line("after model, optimizer, and learning rate scheduler are built",
                          std::chrono::system_clock::now()));
  add_data(setup, lines);
  add_end_of_setup(setup, times, loaded_iteration, lines);
  return lines.take();
}

}  // namespace phalanx
