#include "phalanx/rank/rank.h"

#include <algorithm>
#include <span>

#include "phalanx/base/numeric.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/rank/gather.h"
#include "phalanx/rank/step_run.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// How far back the passes of a rank's list read weights, counting the newest version.
int weight_versions_back(const std::vector<Action>& actions) {
  int newest = 0;
  int most = 1;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kOptimizerStep) newest = action.version;
    if (is_pass(action.kind)) most = std::max(most, newest - action.version + 1);
  }
  return most;
}

// The most versions of the weights that a rank of the pipeline reads at once.
int weight_versions(const StepPrograms& programs, int pipeline_rank) {
  int versions = 1;
  for (const auto& [size, pipeline] : programs.training) {
    const auto& actions = pipeline.schedule.ranks[static_cast<std::size_t>(pipeline_rank)];
    versions = std::max(versions, weight_versions_back(actions));
  }
  return versions;
}

// The most tokens of a program, by sequence.
std::vector<std::int64_t> tokens_per_step(const StepPrograms& programs,
                                          const nn::BatchShapes& shapes) {
  int most_microbatches = 1;
  for (const auto& [size, pipeline] : programs.training) {
    most_microbatches = std::max(most_microbatches, size.microbatches);
  }
  return {most_microbatches * shapes.of[0].rows(), most_microbatches * shapes.of[1].rows()};
}

// A plan of a run on a device has the memory of its host where the run has it.
bool has_own_host_memory(const TrainConfig& config, const Backend& backend) {
  return backend.space() == MemorySpace::kDevice || config.layout.device != "cpu";
}

// Every rank of the world splits at the same time.
RankCommunicators::ContextLevels context_levels(const TrainConfig& config,
                                                const RankCommunicators& ranks) {
  const ContextParallel context = context_parallel(config.layout);
  if (std::ranges::find(context.exchanges, ContextExchange::kHeadsAndRing) ==
      context.exchanges.end()) {
    return {};
  }
  return ranks.context_levels(context.inner);
}

ModelPlace place_of(const RankCommunicators& ranks) {
  return {.tensor_rank = ranks.coordinates.tensor, .experts = ranks.expert_parallel()};
}

// Of this rank's rows.
nn::RowPatterns row_patterns(const Model& model, const BatchSchema& schema) {
  nn::RowPatterns patterns = model.row_patterns();
  if (schema != model.batch_schema()) patterns[0].consecutive = false;
  return patterns;
}

}  // namespace

// Gathers, slots of a stop agreement, counts of losses and scores.
Rank::Host::Host(int ranks)
    : backend(make_cpu_backend(1, cpu::ProductPrecision::kFp32)),
      memory("control", round_up(gather_bytes(ranks), kArenaAlignment) + (std::int64_t{1} << 16)),
      context{.backend = *backend, .workspace = memory} {}

Rank::Rank(const TrainConfig& config, const Model& any_rank, const StepPrograms& programs,
           const RankCommunicators& ranks, Backend& backend, RankArenas& arenas, Shared* shared)
    : config_(config),
      ranks_(ranks),
      region_(any_rank.placed(place_of(ranks))->transformer().tensor, ranks.tensor.get()),
      context_levels_(context_levels(config, ranks)),
      context_{
          .backend = backend, .workspace = arenas["workspace"], .queue = {}, .recorder = nullptr},
      host_(has_own_host_memory(config, backend) ? std::make_unique<Host>(ranks.world->size())
                                                 : nullptr),
      arenas_(arenas),
      family_model_(any_rank.placed(place_of(ranks))),
      schema_(context_schema(family_model_->batch_schema(),
                             static_cast<int>(config.layout.context_parallel_size))),
      shapes_(batch_shapes(schema_, config.layout.micro_batch_size,
                           region_.layout().sequence_shards())),
      states_(config_, *family_model_, programs, ranks, tokens_per_step(programs, shapes_),
              context_, arenas, shared != nullptr ? &shared->models : nullptr),
      programs_(programs, states_, shapes_, ranks, shared != nullptr ? &shared->saved : nullptr),
      losses_(config_, *family_model_, programs_, states_.numbers(), arenas["workspace"],
              host_context().workspace),
      batches_(schema_, row_patterns(*family_model_, schema_), config.layout.micro_batch_size,
               programs_.batch_slots(), arenas["workspace"], ranks.coordinates.context) {
  if (is_asynchronous(config.layout)) {
    asynchronous_ = std::make_unique<AsynchronousUpdates>(
        states_.parameters(), weight_versions(programs, ranks.coordinates.pipeline), ranks,
        arenas["parameters"], arenas["workspace"]);
  }
  if (ranks.world->size() > 1) {
    const auto pipeline = static_cast<int>(config.layout.pipeline_model_parallel_size);
    stop_slots_ = host_context().workspace.allocate(DType::kI32, {StopAgreement::delay(pipeline)});
  }
  Arena& snapshot = arenas["snapshot"];
  if (snapshot.space() != MemorySpace::kNone && snapshot.capacity() > 0) {
    snapshot_memory_ = snapshot.allocate(DType::kU8, {snapshot.capacity()});
  }
}

Rank::~Rank() {
  if (!ends_together_ && std::uncaught_exceptions() > exceptions_at_birth_) {
    ranks_.abort("it ended with an exception");
  }
}

void Rank::initialise() {
  states_.draw_weights(context_);
  initialise_optimizer();
  initialise_gradients();
}

StepsUnderWay Rank::begin_training(std::span<const StepSchedule> iterations,
                                   const BatchSource& source, PassObserver* observer,
                                   nn::UnitHooks* last_hooks, const UpdateSource& updates) {
  const StepSchedule& first = iterations.front();
  const std::int64_t microbatches =
      first.microbatches > 0 ? first.microbatches : num_microbatches(config_.layout);
  TrainingRun run(
      *this,
      programs_.training({static_cast<int>(iterations.size()), static_cast<int>(microbatches)}),
      iterations, &source);
  if (wants_loss_counts()) run.count_losses(first.loss_counts);
  if (updates) run.ask_updates(updates);
  run.run(observer, last_hooks);
  return run.results();
}

StepResult Rank::evaluate(const BatchSource& source) {
  return *EvaluationRun(*this, &source).run();
}

std::optional<StepResult> Rank::evaluate_unless(const std::function<bool()>& stop,
                                                const BatchSource& source) {
  return EvaluationRun(*this, &source, &stop).run();
}

std::int64_t Rank::file_bytes() const {
  const SavedFiles* activations = programs_.saved_files();
  return states_.file_bytes() + (activations != nullptr ? activations->file_bytes() : 0);
}

void Rank::time_with(StepTimers* timers) {
  timers_ = timers;
  states_.time_with(timers);
}

int Rank::largest_of_all(int value) {
  if (!stop_slots_) return value;
  const Tensor slot = stop_slots_.slice(0, 0, 1);
  const std::int32_t mine = value;
  Context& context = host_context();
  context.backend.upload(context.queue, slot, std::as_bytes(std::span(&mine, 1)));
  ranks_.control->all_reduce(context, slot, Reduction::kMax).wait(context.queue);
  std::int32_t largest = 0;
  context.backend.read_back(context.queue, slot, std::as_writable_bytes(std::span(&largest, 1)));
  return largest;
}

}  // namespace phalanx
