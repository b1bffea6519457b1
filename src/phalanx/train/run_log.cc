#include "phalanx/train/run_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/team.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/metrics/process_memory.h"
#include "phalanx/rehearsal/memory_table.h"
#include "phalanx/settings/trained_parameters.h"
#include "phalanx/start/run_facts.h"
#include "phalanx/start/start_lines.h"

namespace phalanx {
namespace {

// `by_layer`: also those of each layer.
std::optional<ExpertLoads> expert_loads(std::span<const RouterLoad> routers, bool by_layer) {
  if (routers.empty()) return std::nullopt;
  ExpertLoads loads;
  for (const RouterLoad& router : routers) {
    const auto layers = static_cast<double>(routers.size());
    loads.worst = std::max(loads.worst, router.most_to_mean);
    loads.mean += router.most_to_mean / layers;
    loads.dropped += router.dropped / layers;
    std::optional<ExpertLoads::Bias> bias;
    if (router.bias) {
      bias = ExpertLoads::Bias{.least = router.bias->least, .most = router.bias->most};
      loads.bias = {.least = std::min(loads.bias.value_or(*bias).least, bias->least),
                    .most = std::max(loads.bias.value_or(*bias).most, bias->most)};
    }
    if (!by_layer) continue;
    loads.layers.push_back({.name = router.name.substr(0, router.name.find(".mlp.")),
                            .most_to_mean = router.most_to_mean,
                            .dropped = router.dropped,
                            .bias = bias});
  }
  return loads;
}

std::vector<ArenaBytes> arenas_of(const RunSetup& setup) {
  std::vector<ArenaBytes> arenas;
  for (const int rank : ranks_of_places(setup.grids)) {
    arenas.push_back(
        {.rank = rank, .bytes = setup.ranks[static_cast<std::size_t>(rank)].bytes.total()});
  }
  return arenas;
}

}  // namespace

bool is_logged(const RunConfig& run, std::int64_t iteration) {
  return iteration % run.log_interval == 0;
}

RunLog::RunLog(const RunSetup& setup, const MemoryPlan& plan, const RunState& begin,
               RunSinks* sinks, std::span<const TimerRow> times)
    : config_(setup.config),
      lock_(setup.lock),
      sinks_(sinks),
      peak_bytes_(setup.peak_bytes),
      losses_(setup.model->losses()),
      auxiliary_losses_(setup.model->auxiliary_losses()),
      scores_(family_of(setup.config).evaluation_scores(setup.config)),
      sample_(sinks == nullptr ? Sample{} : mean_sample(setup)),
      disk_(setup.disk) {
  if (sinks_ == nullptr) return;
  if (setup.forecast) comparison_.emplace(*setup.forecast);
  if (setup.forecast && !config_.run.write_device_file.empty()) device_file_.emplace(setup);
  expect_own_directory();
  const bool is_over = begin.iteration >= setup.length.last_iteration();
  const MemoryBytes& bytes = plan.bytes;
  const std::int64_t weights =
      bytes["parameters"] + bytes["main_parameters"] + bytes["gradients"] + bytes["optimizer"];
  sinks_->begin(
      {.arguments = argument_values(config_),
       .lines = start_lines(setup, plan, begin.iteration, times),
       .iteration = begin.iteration,
       .consumed_samples = begin.consumed_train_samples,
       .last_iteration = setup.length.last_iteration(),
       .is_finished = is_over && !setup.length.begin().evaluation_is_due,
       .world_size = setup.grids.dense.world_size(),
       .peak_flops = setup.peak_flops(),
       .instruction_peak_flops = setup.instruction_peak_flops(),
       .arenas = arenas_of(setup),
       .weight_and_optimizer_bytes = weights,
       .activation_bytes = bytes.total() - weights,
       .facts = config_.run.save.empty() ? std::string() : run_facts(setup, begin.loading)});
}

RunLog::Sample RunLog::mean_sample(const RunSetup& setup) {
  const Model& model = *setup.model;
  const double share = trained_share(setup.config, model).flops;
  Sample sample{
      .tokens = static_cast<double>(model.tokens_per_sample()),
      .model_flops = share * model.flops_per_sample(),
      .hardware_flops = setup.flops_per_step / static_cast<double>(setup.length.batches().last())};
  if (!setup.data || !setup.data->has(SplitKind::kTrain)) return sample;
  const SampleSource& source = *setup.data->sets(SplitKind::kTrain).front().source;
  const auto tokens =
      source.mean_of_documents([](std::int64_t n) { return static_cast<double>(n); });
  if (!tokens) return sample;
  sample.tokens = *tokens;
  sample.model_flops =
      share * *source.mean_of_documents([&](std::int64_t n) { return model.flops_of_document(n); });
  return sample;
}

void RunLog::iteration(const RunState& state, const StepResult& step, std::int64_t global_batch,
                       const LearningRates& next, double seconds, IterationTimes times) {
  if (sinks_ == nullptr) return;
  expect_own_directory();
  const auto samples = static_cast<double>(global_batch);
  IterationReport report;
  report.iteration = state.iteration;
  report.consumed_samples = state.consumed_train_samples;
  report.global_batch_size = global_batch;
  report.tokens = std::llround(samples * sample_.tokens);
  report.model_flops = samples * sample_.model_flops;
  report.hardware_flops = samples * sample_.hardware_flops;
  std::vector<double> means;
  for (const LossResult& loss : step.losses) means.push_back(loss.mean);
  report.losses = named(means);
  for (std::size_t i = 0; i < auxiliary_losses_.size(); ++i) {
    report.losses.push_back(
        {.name = auxiliary_losses_[i].name, .value = step.auxiliary_losses[i], .title = {}});
  }
  report.learning_rate = next.rate;
  report.decoupled_learning_rate = next.decoupled;
  report.loss_scale = state.loss_scaler.scale;
  report.grad_norm = step.grad_norm;
  if (config_.optimizer.log_num_zeros_in_grad) report.zeros_in_gradients = step.zeros_in_grad;
  report.parameters_norm = step.parameters_norm;
  report.expert_loads = expert_loads(step.router_loads, config_.experts.moe_per_layer_logging);
  report.skipped_samples = state.left_out_samples;
  report.skipped = step.skipped;
  report.seconds = seconds;
  report.data_seconds = times.data;
  report.message_seconds = times.messages;
  if (disk_) {
    report.file_seconds = times.files;
    step_seconds_.add(static_cast<double>(state.iteration), seconds);
    file_seconds_.add(static_cast<double>(state.iteration), times.files);
  }
  report.saving_seconds = times.saving;
  if (times.is_saving) report.snapshot_seconds = times.snapshot + times.saving;
  report.save_bytes = times.save_bytes;
  report.times = std::move(times.rows);
  report.peak_bytes = peak_bytes_;
  report.rss_bytes = peak_resident_bytes();
  report.is_logged = is_logged(config_.run, state.iteration);
  const bool is_forecast = comparison_ && comparison_->add(report);
  if (comparison_ && !times.parts.empty()) report.parts = comparison_->take_parts(times.parts);
  sinks_->iteration(report);
  if (device_file_ && is_forecast) write_device_file(report);
  note_core_waits(state.iteration);
}

void RunLog::note_core_waits(std::int64_t iteration) {
  const std::vector<int> threads = Team::mine().thread_ids();
  const auto share =
      core_waits_.after_step(CoreWaits::Clock::now(), static_cast<int>(std::ssize(threads)),
                             [&] { return waited_for_cores(threads); });
  if (!share) return;
  note({RunNote::Kind::kWarning, iteration,
        fmt::format(
            "the threads of rank 0 had work and no core for {:.0f} % of the last iterations: "
            "other programs use its cores, or the run has more threads than cores. Stop the "
            "others, or give fewer threads (--threads-per-rank) or ranks "
            "(docs/how-to/is-slow.md)",
            100.0 * *share)});
}

void RunLog::write_device_file(const IterationReport& report) {
  try {
    const std::string text = device_file_->add(report.seconds);
    if (!text.empty()) note({RunNote::Kind::kPrediction, report.iteration, text});
  } catch (const Error& error) {
    note({RunNote::Kind::kWarning, report.iteration,
          fmt::format("--write-device-file: {}", error.what())});
  }
}

void RunLog::evaluation(const RunState& state, SplitKind kind, const std::string& set,
                        const std::string& place, std::span<const double> losses,
                        std::span<const double> counts) {
  if (sinks_ == nullptr) return;
  expect_own_directory();
  sinks_->evaluation(
      {.iteration = state.iteration,
       .consumed_samples = state.consumed_train_samples,
       .split = std::string(name_of(kind)),
       .set = set,
       .place = place,
       .losses = named(losses),
       .scores = scores_ != nullptr ? scores_->scores(counts) : std::vector<NamedLoss>()});
}

std::vector<NamedLoss> RunLog::named(std::span<const double> means) const {
  std::vector<NamedLoss> losses;
  for (std::size_t i = 0; i < means.size(); ++i) {
    losses.push_back({.name = losses_[i].name, .value = means[i], .title = losses_[i].title});
  }
  return losses;
}

void RunLog::answers(const AnswersReport& report) {
  if (sinks_ == nullptr) return;
  expect_own_directory();
  sinks_->answers(report);
}

void RunLog::note(const RunNote& note) {
  if (sinks_ != nullptr) sinks_->note(note);
}

// Compares what was predicted with what was measured.
void RunLog::note_disk(std::int64_t iteration) {
  if (step_seconds_.empty()) return;
  note({RunNote::Kind::kDisk, iteration,
        fmt::format("disk: a step {}; measured: it took {:.3g} s, and of that the first rank "
                    "waited {:.3g} s for files (medians)",
                    to_text(*disk_, config_.layout), step_seconds_.median(),
                    file_seconds_.median())});
}

void RunLog::expect_own_directory() const {
  if (lock_) lock_->expect_in_place();
}

void RunLog::end(RunEnding ending) {
  const bool has_failed = ending.outcome == RunEnding::Outcome::kFailed;
  if (disk_ && !has_failed) note_disk(ending.iteration);
  if (comparison_ && !has_failed && comparison_->steps() > 0) {
    note({RunNote::Kind::kPrediction, ending.iteration, comparison_->to_text()});
    ending.facts = with_member(ending.facts, "prediction", comparison_->to_json());
  }
  if (device_file_ && !device_file_->is_written() && !has_failed) {
    note({RunNote::Kind::kWarning, ending.iteration,
          fmt::format("--write-device-file {}: not written, {} more iterations were needed",
                      config_.run.write_device_file, device_file_->missing())});
  }
  if (sinks_ == nullptr) return;
  if (!has_failed) expect_own_directory();
  ending.save_is_lost = lock_ && !lock_->is_in_place();
  sinks_->end(ending);
}

}  // namespace phalanx
