// The lowered programs of any schedule that the verifier accepts complete on ranks that exchange
// real messages, and every pass gets the right input: each tensor holds the name of its origin.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/pipeline/executor.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/test_support.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

constexpr nn::BatchShape kShape{.sequence = 2, .micro_batch = 1};
constexpr int kUnitsPerStage = 2;

// The name of a tensor as a number: of the activation after unit `u` (counted through the model),
// or of its gradient.
float tensor_name(Payload payload, int u, std::int64_t microbatch) {
  return static_cast<float>(10000 * static_cast<int>(payload) + 100 * u) +
         static_cast<float>(microbatch);
}

void write(const Tensor& tensor, float name) { std::ranges::fill(tensor.span<float>(), name); }
void expect(const Tensor& tensor, float name) {
  for (const float value : tensor.span<float>()) ASSERT_EQ(value, name);
}

// Writes names, and checks those that it reads.
class NamingUnit final : public nn::Unit {
 public:
  NamingUnit(int number, int units) : Unit(std::to_string(number)), number_(number) {
    if (number > 0) inputs_ = {{"stream", DType::kF32, 3}};
    if (number + 1 < units) outputs_ = {{"stream", DType::kF32, 3}};
  }
  void forward(nn::Pass& pass, Tensors inputs, Tensors outputs,
               const nn::Saved& /*saved*/) const override {
    expect_inputs(pass, inputs);
    for (const Tensor& output : outputs) {
      write(output, tensor_name(Payload::kActivation, number_, microbatch(pass)));
    }
  }
  void backward_input(nn::Pass& pass, Tensors inputs, Tensors output_gradients,
                      Tensors input_gradients, const nn::Saved& /*saved*/) const override {
    expect_inputs(pass, inputs);
    for (const Tensor& gradient : output_gradients) {
      expect(gradient, tensor_name(Payload::kGradient, number_, microbatch(pass)));
    }
    for (const Tensor& gradient : input_gradients) {
      write(gradient, tensor_name(Payload::kGradient, number_ - 1, microbatch(pass)));
    }
  }
  void backward_weight(nn::Pass& pass, Tensors inputs, const nn::Saved& /*saved*/,
                       const nn::Gradients& /*gradients*/) const override {
    expect_inputs(pass, inputs);
  }

 private:
  static std::int64_t microbatch(const nn::Pass& pass) {
    return pass.batch[0].span<std::int32_t>()[0];
  }
  void expect_inputs(const nn::Pass& pass, Tensors inputs) const {
    for (const Tensor& input : inputs) {
      expect(input, tensor_name(Payload::kActivation, number_ - 1, microbatch(pass)));
    }
  }
  int number_;
};

// Batches in as few buffers as the executor has slots.
class StreamServices final : public StepServices {
 public:
  StreamServices(const BatchSlots& slots, Arena& arena) : slots_(slots) {
    for (int i = 0; i < slots.count(); ++i) {
      buffers_.emplace_back().columns = {arena.allocate(DType::kI32, {1})};
    }
    sums_ = {.sum = arena.allocate(DType::kF64, {1}), .count = arena.allocate(DType::kF64, {1})};
  }
  const nn::Batch& load(int microbatch) override {
    loaded(microbatch)[0].span<std::int32_t>()[0] = microbatch;
    return loaded(microbatch);
  }
  const nn::Batch& loaded(int microbatch) override {
    return buffers_[static_cast<std::size_t>(slots_.slot(microbatch))];
  }
  std::span<const nn::LossTerm> losses(int /*microbatch*/) override { return {&sums_, 1}; }
  nn::Weights stale_weights(int /*version*/) override { return {}; }
  void reduce_gradients(int /*chunk*/) override {}
  void optimizer_step(int /*version*/) override {}
  void gather_parameters() override {}

 private:
  const BatchSlots& slots_;
  std::vector<nn::Batch> buffers_;
  nn::LossTerm sums_;
};

class PassList final : public PassObserver {
 public:
  void begin(const Action& pass) override { begun_.push_back(pass); }
  void end(const Action& pass) override {
    EXPECT_EQ(pass, begun_.back());
    ++ended_;
  }
  const std::vector<Action>& passes() const {
    EXPECT_EQ(ended_, begun_.size());
    return begun_;
  }

 private:
  std::vector<Action> begun_;
  std::size_t ended_ = 0;
};

void run_rank(const Schedule& schedule, const Program& program, Communicator& world) {
  const Placement& placement = schedule.placement;
  std::vector<Chunk> chunks;
  for (int c = 0; c < placement.chunks(); ++c) {
    std::vector<std::unique_ptr<nn::Unit>> units;
    for (int u = 0; u < kUnitsPerStage; ++u) {
      units.push_back(
          std::make_unique<NamingUnit>(kUnitsPerStage * placement.stage(world.rank(), c) + u,
                                       kUnitsPerStage * placement.stages()));
    }
    chunks.emplace_back(std::move(units));
  }
  std::vector<ChunkTables> tables;
  for (const Chunk& chunk : chunks) tables.push_back({&chunk, {}, {}});
  const bool alone = placement.ranks() == 1;
  Executor executor(program, tables, kShape, alone ? nullptr : &world);

  const auto backend = make_ref_backend();
  Arena workspace("workspace", 1 << 16);
  Arena saved("saved", executor.saved_plan().bytes());
  std::memset(saved.base(), 0xff, static_cast<std::size_t>(saved.capacity()));
  Arena batches("batches", 1 << 16);
  Context context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = nullptr};
  StreamServices services(executor.batch_slots(), batches);
  nn::UnitHooks hooks;
  PassList observed;
  executor.run(context, saved,
               {.shapes = kShape, .region = {}, .training = !program.forward_only, .loss = {}},
               services, hooks, &observed);
  EXPECT_EQ(saved.high_water(), executor.saved_plan().bytes());
  std::vector<Action> passes = program.actions;
  std::erase_if(passes, [](const Action& action) { return !is_pass(action.kind); });
  EXPECT_EQ(observed.passes(), passes);
}

void run_schedule(const Schedule& schedule) {
  const auto programs = lower(schedule);
  run_local_ranks(schedule.placement.ranks(), {.timeout = std::chrono::seconds(20)},
                  [&](Communicator& world) {
                    run_rank(schedule, programs[static_cast<std::size_t>(world.rank())], world);
                  });
}

TEST(Programs, OfAllKindsDeliverEveryMessage) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int ranks : {2, 3, 4}) {
      const ScheduleRequest request{.ranks = ranks, .microbatches = 12};
      if (kind.placement(request).directions() > 1) continue;
      SCOPED_TRACE(testing::Message() << kind.name << " on " << ranks << " ranks");
      run_schedule(make_schedule(kind.name, request));
    }
  }
}

TEST(Programs, OfEvaluationsDeliverEveryMessage) {
  for (const Placement& placement :
       {Placement::contiguous(4), Placement::looped(2, 3), Placement::looped(3, 2),
        Placement::wave(3, 2), Placement::wave(2, 4), Placement::wave(1, 2)}) {
    SCOPED_TRACE(testing::Message() << name_of(placement.shape()) << placement.ranks());
    run_schedule(forward_only_schedule(placement, 7));
  }
}

// Passes in any possible order; the forward passes of a chunk are in the order of microbatches.
class RandomSchedule {
 public:
  explicit RandomSchedule(unsigned seed) : random_(seed), placement_(random_placement()) {
    microbatches_ = below(6) + 1;
    const std::size_t states =
        static_cast<std::size_t>(placement_.stages()) * static_cast<std::size_t>(microbatches_);
    forward_.resize(states);
    input_.resize(states);
    weight_.resize(states);
    lists_.resize(static_cast<std::size_t>(placement_.ranks()));
  }

  Schedule make() {
    for (auto ready = ready_passes(); !ready.empty(); ready = ready_passes()) {
      const Ready& chosen = ready[index_below(ready.size())];
      const Action action = pass(chosen.kind, placement_.chunk(chosen.stage), chosen.microbatch);
      run(chosen);
      lists_[static_cast<std::size_t>(placement_.rank(chosen.stage))].push_back(action);
    }
    for (auto& list : lists_) {
      for (int c = 0; c < placement_.chunks(); ++c) {
        list.push_back({.kind = ActionKind::kReduceGradients, .chunk = c});
      }
      list.push_back({.kind = ActionKind::kOptimizerStep, .version = 1});
    }
    return {.kind = "random",
            .placement = placement_,
            .microbatches = microbatches_,
            .microbatches_per_update = microbatches_,
            .ranks = lists_};
  }

  // Swaps neighbouring passes of a rank: some of the results are impossible.
  void disturb(Schedule& schedule) {
    auto& list = schedule.ranks[static_cast<std::size_t>(below(placement_.ranks()))];
    const auto passes = static_cast<int>(
        std::ranges::count_if(list, [](const Action& action) { return is_pass(action.kind); }));
    if (passes < 2) return;
    const auto at = static_cast<std::size_t>(below(passes - 1));
    std::swap(list[at], list[at + 1]);
  }

 private:
  std::size_t index_below(std::size_t end) { return random_() % end; }
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  Placement random_placement() {
    const int ranks = below(4) + 1;
    switch (below(3)) {
      case 0:
        return Placement::contiguous(ranks);
      case 1:
        return ranks == 1 ? Placement::contiguous(1) : Placement::looped(ranks, below(3) + 1);
      default:
        return Placement::wave(ranks, 2 * (below(2) + 1));
    }
  }
  std::size_t at(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(microbatch);
  }
  // A pass that could run next.
  struct Ready {
    ActionKind kind;
    int stage, microbatch;
  };
  std::vector<Ready> ready_passes() const {
    std::vector<Ready> ready;
    const auto add = [&](ActionKind kind, int stage, int m) { ready.push_back({kind, stage, m}); };
    for (int stage = 0; stage < placement_.stages(); ++stage) {
      for (int m = 0; m < microbatches_; ++m) {
        const bool turn = m == 0 || forward_[at(stage, m - 1)];
        const bool fed = stage == 0 || forward_[at(stage - 1, m)];
        if (!forward_[at(stage, m)] && turn && fed) add(ActionKind::kForward, stage, m);
        if (!forward_[at(stage, m)]) continue;
        const bool last = stage + 1 == placement_.stages();
        if (!input_[at(stage, m)] && (last || input_[at(stage + 1, m)])) {
          add(ActionKind::kBackward, stage, m);
          add(ActionKind::kBackwardInput, stage, m);
        }
        if (input_[at(stage, m)] && !weight_[at(stage, m)]) {
          add(ActionKind::kBackwardWeight, stage, m);
        }
      }
    }
    return ready;
  }
  void run(const Ready& pass) {
    const std::size_t i = at(pass.stage, pass.microbatch);
    if (pass.kind == ActionKind::kForward) forward_[i] = true;
    if (makes_input_gradient(pass.kind)) input_[i] = true;
    if (adds_weight_gradient(pass.kind)) weight_[i] = true;
  }

  std::mt19937 random_;
  Placement placement_;
  int microbatches_ = 0;
  std::vector<bool> forward_, input_, weight_;  // done, by (stage, microbatch)
  ActionLists lists_;
};

TEST(Programs, OfRandomSchedulesDeliverEveryMessage) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Schedule schedule = RandomSchedule(seed).make();
    ASSERT_NO_THROW(verify(schedule));
    run_schedule(schedule);
  }
}

// Every rank reads batches as a stream.
bool loads_in_order(const Schedule& schedule) {
  return std::ranges::all_of(schedule.ranks, [](const std::vector<Action>& list) {
    int loaded = 0;
    for (const Action& action : list) {
      if (!is_pass(action.kind) || action.microbatch < loaded) continue;
      if (action.microbatch > loaded) return false;
      ++loaded;
    }
    return true;
  });
}

// Changed schedules that are still possible complete as well; the verifier refuses the others.
TEST(Programs, OfWhateverTheVerifierAcceptsFinish) {
  int accepted = 0;
  int refused = 0;
  for (unsigned seed = 1000; seed < 1250; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSchedule random(seed);
    Schedule schedule = random.make();
    for (int i = 0; i < 2; ++i) random.disturb(schedule);
    try {
      verify(schedule);
    } catch (const ConfigError&) {
      ++refused;
      continue;
    }
    if (!loads_in_order(schedule)) continue;
    ++accepted;
    run_schedule(schedule);
  }
  EXPECT_GT(accepted, 30);
  EXPECT_GT(refused, 30);
}

}  // namespace
}  // namespace phalanx
