// A GPT on several ranks under the programs of real runs: gradients and losses are those of one
// rank, bit for bit, and rehearsals count what a run does.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/model/test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/meta/meta_backend.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/pipeline/executor.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

constexpr int kMicrobatches = 6;
constexpr nn::BatchShape kShape{.sequence = 5, .micro_batch = 2};

// Layers for every stage, and one more on the last.
GptConfig config_of(const Placement& placement, const RecomputePlan& recompute = {}) {
  GptConfig config = test_gpt_config(false);
  config.transformer.num_layers = placement.stages() + 1;
  config.recompute = recompute;
  return config;
}

// A parameter gets the same numbers on any rank.
void set_by_name(const ParamSpec& spec, const Tensor& tensor) {
  const auto values = tensor.span<double>();
  auto state = static_cast<std::uint64_t>(std::hash<std::string>()(spec.name));
  const double centre =
      spec.initialiser.kind == Initialiser::Kind::kConstant && spec.initialiser.value != 0.0 ? 1.0
                                                                                             : 0.0;
  for (double& value : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = centre + static_cast<double>(state >> 40) / 16777216.0 - 0.5;
  }
}

// One rank's part of the model, and all that its passes need.
class PipelineRank final : public StepServices {
 public:
  PipelineRank(const GptConfig& config, const Placement& placement, int rank, Context& context)
      : operands_(memory_, DType::kF64, context) {
    // Drawn first, so that every rank draws the same.
    for (int m = 0; m < kMicrobatches; ++m) {
      batches_.push_back(gpt_test_batch(nn::test_batch(operands_, kShape, config.vocabulary)));
      for (auto& sample : batches_.back().rows[0].sample.span<std::int64_t>()) sample += 2 * m;
    }
    sums_ = {.sum = operands_.filled(DType::kF64, {1}, 0.0),
             .count = operands_.filled(DType::kF64, {1}, 0.0),
             .factor = 0.01};
    loss_ = {.loss_scale = operands_.filled(DType::kF64, {1}, 8.0)};
    for (int c = 0; c < placement.chunks(); ++c) {
      const int stage = placement.stage(rank, c);
      const bool last = stage + 1 == placement.stages();
      chunks_.push_back(
          build_gpt_chunk(config,
                          {.first_layer = stage,
                           .num_layers = last ? config.transformer.num_layers - stage : 1,
                           .embedding = stage == 0,
                           .head = last},
                          table_));
    }
    for (const ParamSpec& spec : table_.specs()) {
      parameters_.push_back(operands_.output(spec.dtype, spec.local_shape));
      set_by_name(spec, parameters_.back());
    }
    gradients_ = nn::zero_gradients(operands_, table_);
  }

  std::vector<ChunkTables> tables() const {
    std::vector<ChunkTables> tables;
    for (const Chunk& chunk : chunks_) tables.push_back({&chunk, {parameters_}, {gradients_, {}}});
    return tables;
  }
  StepSettings settings() const {
    return {.shapes = kShape, .region = {}, .training = true, .loss = loss_};
  }
  void add_results(std::map<std::string, std::vector<double>>& results) const {
    for (ParamId id = 0; id < table_.size(); ++id) {
      results[table_[id].name] = nn::values_of(gradients_[static_cast<std::size_t>(id)]);
    }
    // Only the last stage adds to them.
    const double loss = nn::values_of(sums_.sum)[0];
    if (loss != 0.0) results["loss"] = {loss, nn::values_of(sums_.count)[0]};
  }

  // As if a tensor-parallel group had agreed on it.
  const nn::Batch& load(int microbatch) override {
    if (recorder != nullptr) {
      recorder->record(MessageBegun{.group = group_, .op = "broadcast", .bytes = 100});
    }
    return loaded(microbatch);
  }
  const nn::Batch& loaded(int microbatch) override {
    return batches_.at(static_cast<std::size_t>(microbatch));
  }
  std::span<const nn::LossTerm> losses(int /*microbatch*/) override { return {&sums_, 1}; }
  nn::Weights stale_weights(int /*version*/) override { return {parameters_}; }
  void reduce_gradients(int /*chunk*/) override {}
  void optimizer_step(int /*version*/) override {}
  void gather_parameters() override {}

  Recorder* recorder = nullptr;

 private:
  std::shared_ptr<const MessageGroup> group_ =
      std::make_shared<const MessageGroup>(MessageGroup{.name = "tp", .ranks = {}});
  Arena memory_{"operands", 8 << 20};
  ops::Operands operands_;
  nn::ParamTable table_;
  std::vector<Chunk> chunks_;
  std::vector<Tensor> parameters_, gradients_;
  std::vector<nn::Batch> batches_;
  nn::LossTerm sums_;
  nn::LossSettings loss_;
};

// Runs one rank's program in memory full of garbage.
void run_rank(PipelineRank& rank, const Program& program, Context& context, Communicator* world) {
  Executor executor(program, rank.tables(), kShape, world);
  Arena saved("saved", executor.saved_plan().bytes());
  std::memset(saved.base(), 0xff, static_cast<std::size_t>(saved.capacity()));
  nn::UnitHooks hooks;
  executor.run(context, saved, rank.settings(), rank, hooks);
  EXPECT_EQ(saved.high_water(), executor.saved_plan().bytes());
}

// Gradients by name, and the loss.
using Results = std::map<std::string, std::vector<double>>;

Results results_of(const Schedule& schedule, const GptConfig& config) {
  const auto programs = lower(schedule);
  Results results;
  std::mutex mutex;
  run_local_ranks(
      schedule.placement.ranks(), {.timeout = std::chrono::seconds(60)}, [&](Communicator& world) {
        const auto backend = make_ref_backend();
        Arena workspace("workspace", 1 << 20);
        Context context{
            .backend = *backend, .workspace = workspace, .queue = {}, .recorder = nullptr};
        PipelineRank rank(config, schedule.placement, world.rank(), context);
        run_rank(rank, programs[static_cast<std::size_t>(world.rank())], context,
                 world.size() > 1 ? &world : nullptr);
        const std::lock_guard lock(mutex);
        rank.add_results(results);
      });
  return results;
}

Results results_of_one_rank(const GptConfig& config) {
  const auto backend = make_ref_backend();
  Arena workspace("workspace", 1 << 20);
  Context context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = nullptr};
  const Schedule schedule = make_schedule(
      "gpipe", {.ranks = 1, .microbatches = kMicrobatches, .costs = {}, .memory_limit = {}});
  Results results;
  PipelineRank rank(config, schedule.placement, 0, context);
  run_rank(rank, lower(schedule)[0], context, nullptr);
  rank.add_results(results);
  return results;
}

std::vector<Schedule> schedules_on(int ranks) {
  std::vector<Schedule> schedules;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.directions() > 1) continue;
    schedules.push_back(make_schedule(
        kind.name,
        {.ranks = ranks, .microbatches = kMicrobatches, .costs = {}, .memory_limit = {}}));
  }
  return schedules;
}

TEST(PipelinedExecutor, EveryScheduleGivesTheBitsOfOneRank) {
  using Method = RecomputePlan::Method;
  for (const int ranks : {2, 3}) {
    for (const Schedule& schedule : schedules_on(ranks)) {
      if (training_obstacle(schedule)) continue;
      for (const RecomputePlan& recompute :
           {RecomputePlan{}, RecomputePlan{.method = Method::kUniform, .num_layers = 1}}) {
        SCOPED_TRACE(testing::Message() << schedule.kind << " on " << ranks << " ranks");
        const Results expected = results_of_one_rank(config_of(schedule.placement));
        EXPECT_EQ(results_of(schedule, config_of(schedule.placement, recompute)), expected);
        EXPECT_GT(expected.at("loss")[0], 0.0);
      }
    }
  }
}

// A rehearsal counts the same passes and messages that a recorder sees in a run.
TEST(PipelinedExecutor, RehearsalsCountTheProgram) {
  for (const int ranks : {2, 3}) {
    for (const Schedule& schedule : schedules_on(ranks)) {
      SCOPED_TRACE(testing::Message() << schedule.kind << " on " << ranks << " ranks");
      const auto programs = lower(schedule);
      run_local_ranks(ranks, {.timeout = std::chrono::seconds(60)}, [&](Communicator& world) {
        const Program& program = programs[static_cast<std::size_t>(world.rank())];
        const GptConfig config = config_of(schedule.placement);
        const auto backend = make_ref_backend();
        Arena workspace("workspace", 1 << 20);
        Recorder recorder;
        Context context{
            .backend = *backend, .workspace = workspace, .queue = {}, .recorder = &recorder};
        PipelineRank rank(config, schedule.placement, world.rank(), context);
        recorder.clear();
        rank.recorder = &recorder;
        run_rank(rank, program, context, &world);
        MessageTotals messages;
        messages.add(recorder.messages());

        const auto planner = make_meta_backend(
            cpu_workspace_sizes(cpu::make_device(1, cpu::ProductPrecision::kFp32)));
        const auto nobody = make_meta_world(world.rank(), ranks);
        Recorder planned;
        Context planning{
            .backend = *planner, .workspace = workspace, .queue = {}, .recorder = &planned};
        rank.recorder = &planned;
        Executor executor(program, rank.tables(), kShape, nobody.get());
        Arena saved = Arena::planning("saved");
        nn::UnitHooks hooks;
        const auto rehearsal = executor.rehearse(planning, saved, rank.settings(), rank, hooks);
        EXPECT_EQ(rehearsal.flops, recorder.flops());
        EXPECT_EQ(rehearsal.messages, messages);
        EXPECT_GT(rehearsal.flops, 0);
        EXPECT_FALSE(messages.by_key().empty());
        EXPECT_EQ(saved.high_water(), executor.saved_plan().bytes());
      });
    }
  }
}

}  // namespace
}  // namespace phalanx
