// Plants numbers that are not finite in every unit and pass; they must be found there. Only the
// hooks of these tests plant them.

#include "phalanx/watch/nan_finder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "phalanx/ops/elementwise.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using nn::PassKind;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kPasses = {PassKind::kForward, PassKind::kBackwardInput,
                                PassKind::kBackwardWeight};

const char* text_of(PassKind pass) {
  constexpr std::array kTexts = {"forward pass of", "backward pass (input gradients) of",
                                 "backward pass (weight gradients) of"};
  return kTexts.at(static_cast<std::size_t>(pass));
}

// Where a value is planted, and how often.
struct Plant {
  int rank = 0;
  std::string unit;
  PassKind pass = PassKind::kForward;
  int microbatch = 0;
  int times = 1000;
  double value = kNan;
};

// Writes into a tensor that the pass has written, on one rank.
class Planter final : public nn::UnitHooks {
 public:
  Planter(const Plant& plant, int rank)
      : plant_(plant), left_(rank == plant.rank ? plant.times : 0) {}

  void after(const nn::Unit& unit, PassKind pass, int microbatch,
             const nn::UnitTensors& t) override {
    const bool is_it =
        unit.name() == plant_.unit && pass == plant_.pass && microbatch == plant_.microbatch;
    if (!is_it || left_-- <= 0) return;
    // Fills all of it, because dropout may drop a part.
    ops::fill(t.pass.ops, {.x = target_of(unit, pass, t), .value = plant_.value});
  }

 private:
  static Tensor target_of(const nn::Unit& unit, PassKind pass, const nn::UnitTensors& t) {
    if (pass == PassKind::kBackwardWeight) return largest_gradient(unit, *t.gradients);
    const auto streams = pass == PassKind::kForward ? t.outputs : t.input_gradients;
    if (!streams.empty()) return streams[0];
    // In the head, the gradient of its logits; in the embedding, of its output.
    return t.slots.back();
  }
  // Every tensor-parallel rank has a part of this tensor. With a tied word table no pass writes the
  // embedding's gradient.
  static Tensor largest_gradient(const nn::Unit& unit, const nn::Gradients& gradients) {
    if (unit.name() == "embedding") return gradients[unit.parameters().back()];
    const ParamId largest = *std::ranges::max_element(
        unit.parameters(), {}, [&](ParamId id) { return gradients[id].count(); });
    return gradients[largest];
  }

  const Plant plant_;
  int left_;
};

class NanFinderTest : public RunTest {
 protected:
  TrainConfig config(const Layout& layout) const {
    return with_layout(with_flags(RunTest::config(""), "--micro-batch-size 1 --num-layers 4"),
                       layout);
  }

  struct Told {
    ErrorCode code = ErrorCode::kInternal;
    std::string text;
  };
  using MakeHooks = std::function<std::unique_ptr<nn::UnitHooks>(int rank)>;
  using Prepare = std::function<void(Rank&)>;
  // Runs a first step with the hooks; returns the error, which is the same on all ranks.
  static Told told(const TrainConfig& c, const MakeHooks& make_hooks,
                   const Prepare& prepare = nullptr, int hosts = 1) {
    const RunSetup setup(c);
    std::vector<RankPlace> places;
    const int world = static_cast<int>(setup.config.layout.world_size);
    for (int rank = 0; rank < world; ++rank) {
      places.push_back({.rank = rank,
                        .world_size = world,
                        .host = rank * hosts / world,
                        .local_rank = rank,
                        .local_size = world,
                        .host_name = fmt::format("node{}", rank * hosts / world)});
    }
    std::mutex mutex;
    std::vector<Told> all;
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      if (prepare) prepare(rank);
      const auto hooks = make_hooks(rank.ranks().world->rank());
      const std::vector<StepSchedule> schedules(
          static_cast<std::size_t>(iterations_until_drained(setup.config, setup.length, 0)),
          StepSchedule{.lr = 1e-3});
      const auto stream = [&] {
        return RunData::Stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
      };
      auto first = stream();
      const auto results = rank.train(schedules, first.source(), nullptr, hooks.get());
      auto second = stream();
      const BatchSource again = second.source();
      try {
        explain_failed_step(rank, setup.config, setup.programs.placement(), places,
                            {.iteration = 7,
                             .schedules = schedules,
                             .results = results,
                             .source = again,
                             .first_hooks = hooks.get()});
      } catch (const Error& error) {
        const std::scoped_lock lock(mutex);
        all.push_back({error.code(), error.what()});
      }
    });
    EXPECT_EQ(std::ssize(all), world);
    for (const Told& one : all) EXPECT_EQ(one.text, all.front().text);
    return all.empty() ? Told{} : all.front();
  }
  static Told told(const TrainConfig& c, const Plant& plant, int hosts = 1) {
    return told(
        c, [&](int rank) { return std::make_unique<Planter>(plant, rank); }, nullptr, hosts);
  }

  static void expect_found(const TrainConfig& c, const Plant& plant) {
    const Told found = told(c, plant);
    const bool is_alone = c.layout.world_size == 1;
    EXPECT_EQ(found.code, ErrorCode::kDoNotRestart) << found.text;
    EXPECT_THAT(found.text, HasSubstr(fmt::format("first in {}, {} microbatch {}, on rank {}{}",
                                                  plant.unit, text_of(plant.pass), plant.microbatch,
                                                  plant.rank, is_alone ? ":" : " (")));
    EXPECT_THAT(found.text, HasSubstr("its inputs and parameters were finite"));
  }
};

TEST_F(NanFinderTest, FindsEveryUnitAndPassOfOneRank) {
  for (const char* unit : {"embedding", "layer 0", "layer 3", "head"}) {
    for (const PassKind pass : kPasses) {
      // The embedding runs both backward passes before any hook is called.
      if (std::string(unit) == "embedding" && pass == PassKind::kBackwardInput) continue;
      expect_found(config({}), {.unit = unit, .pass = pass, .microbatch = 2});
    }
  }
}

TEST_F(NanFinderTest, FindsItInEveryKindOfModel) {
  TrainConfig bf16 = with_flags(config({}), "--bf16 --untie-embeddings-and-output-weights");
  TrainConfig recomputed = with_flags(
      config({}),
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2");
  for (const TrainConfig& c : {bf16, recomputed}) {
    for (const PassKind pass : kPasses) {
      expect_found(c, {.unit = "layer 2", .pass = pass, .microbatch = 1});
    }
  }
}

TEST_F(NanFinderTest, FindsTheRankOfATensorParallelGroup) {
  for (const bool sequence : {false, true}) {
    for (const PassKind pass : kPasses) {
      expect_found(config({.tensor = 2, .sequence = sequence}),
                   {.rank = 1, .unit = "layer 1", .pass = pass, .microbatch = 1});
    }
  }
}

TEST_F(NanFinderTest, FindsTheRankAmongReplicas) {
  for (const Layout& layout :
       {Layout{.data = 2}, Layout{.data = 2, .overlaps = true},
        Layout{.data = 2, .sharded = true, .overlaps = true},
        Layout{.data = 2, .overlaps = true, .zero = 2}, Layout{.data = 2, .zero = 3}}) {
    for (const PassKind pass : kPasses) {
      expect_found(config(layout), {.rank = 1, .unit = "layer 3", .pass = pass, .microbatch = 1});
    }
  }
}

// Stages after the culprit are victims; in backward passes, stages before it.
TEST_F(NanFinderTest, FindsTheStageOfAPipeline) {
  for (const Layout& layout :
       {Layout{.pipeline = 2}, Layout{.pipeline = 2, .schedule = "interleaved", .chunks = 2},
        Layout{.pipeline = 2, .schedule = "zb-h1"}, Layout{.pipeline = 2, .schedule = "zb-v"}}) {
    const TrainConfig c = config(layout);
    const RunSetup setup(c);
    const Placement& placement = setup.programs.placement();
    // The stage of the third layer.
    const int stage = 2 * placement.stages() / 4;
    for (const PassKind pass : kPasses) {
      expect_found(
          c, {.rank = placement.rank(stage), .unit = "layer 2", .pass = pass, .microbatch = 1});
    }
  }
}

// The copy of a tied word table keeps values of the first run; the second run must ignore them.
TEST_F(NanFinderTest, IgnoresValuesOfTheFirstRun) {
  expect_found(config({.pipeline = 2}),
               {.rank = 1, .unit = "head", .pass = PassKind::kBackwardWeight, .microbatch = 1});
}

TEST_F(NanFinderTest, FindsTheRankInAFullLayout) {
  const Layout all{.tensor = 2,
                   .data = 2,
                   .sequence = true,
                   .sharded = true,
                   .overlaps = true,
                   .pipeline = 2,
                   .schedule = "zb-h1"};
  // Tensor-parallel ranks are next to each other, then replicas, then stages.
  for (const PassKind pass : kPasses) {
    expect_found(config(all), {.rank = 7, .unit = "layer 3", .pass = pass, .microbatch = 1});
    expect_found(config(all), {.rank = 2, .unit = "embedding", .pass = pass});
  }
}

TEST_F(NanFinderTest, NamesTheHost) {
  const Told found =
      told(config({.data = 2}), {.rank = 1, .unit = "layer 0", .pass = PassKind::kForward}, 2);
  EXPECT_THAT(found.text, HasSubstr("on rank 1 (tp 0, pp 0, dp 1) on host node1: output"));
}

TEST_F(NanFinderTest, NamesThePlaceInTheGridOfExperts) {
  const TrainConfig c =
      with_flags(config({.tensor = 2, .data = 2, .sequence = true}),
                 "--num-experts 4 --moe-ffn-hidden-size 16 "
                 "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1");
  const Told found = told(c, {.rank = 3, .unit = "layer 0", .pass = PassKind::kBackwardInput});
  EXPECT_THAT(found.text, HasSubstr("on rank 3 (tp 1, pp 0, dp 1, ep 1, etp 0, edp 1): "));
}

TEST_F(NanFinderTest, NamesTheParameterThatWasNotFinite) {
  const auto no_hooks = [](int) { return std::make_unique<nn::UnitHooks>(); };
  for (const Layout& layout : {Layout{}, Layout{.tensor = 2}}) {
    const Told found = told(config(layout), no_hooks, [](Rank& rank) {
      for (ParamId id = 0; id < rank.table().size(); ++id) {
        const bool is_it = rank.table()[id].name == "decoder.layers.2.mlp.linear_fc1.weight";
        const int last = rank.ranks().tensor ? 1 : 0;
        if (!is_it || rank.ranks().coordinates.tensor != last) continue;
        const Tensor& weight = rank.parameters().weight(id);
        ops::fill(rank.context(),
                  {.x = weight.reshape({weight.count()}).slice(0, 3, 1), .value = kNan});
      }
    });
    EXPECT_EQ(found.code, ErrorCode::kDoNotRestart);
    EXPECT_THAT(found.text, HasSubstr("first in layer 2, forward pass of microbatch 0, on rank " +
                                      std::to_string(layout.tensor - 1)));
    EXPECT_THAT(found.text, HasSubstr("fc1 output; the parameter "
                                      "decoder.layers.2.mlp.linear_fc1.weight was already not "
                                      "finite before the step"));
    EXPECT_THAT(found.text, HasSubstr("--lr"));
  }
}

// A fault that does not happen again comes from a machine.
TEST_F(NanFinderTest, BlamesAMachineForAFaultThatIsNotRepeated) {
  const Told one = told(config({}), {.unit = "layer 1", .times = 1});
  EXPECT_EQ(one.code, ErrorCode::kTemporary);
  EXPECT_THAT(one.text, HasSubstr("run again from the same weights and samples, was (loss "));
  EXPECT_THAT(one.text, HasSubstr("suspicious"));
  // Only its stage sees that a weight's gradient is not finite.
  const Told staged =
      told(config({.pipeline = 2}),
           {.rank = 1, .unit = "layer 3", .pass = PassKind::kBackwardWeight, .times = 1});
  EXPECT_EQ(staged.code, ErrorCode::kTemporary);
  EXPECT_THAT(staged.text, HasSubstr("not finite on rank 1 (tp 0, pp 1, dp 0) alone"));
  EXPECT_THAT(staged.text, HasSubstr("decoder.layers.3."));
}

// Not finite both times, but different, although equal inputs should give equal bits.
TEST_F(NanFinderTest, BlamesAMachineForTwoRunsThatDiffer) {
  // In the first run before the loss is computed, in the second run after it.
  class DifferentFaults final : public nn::UnitHooks {
   public:
    void after(const nn::Unit& unit, PassKind pass, int microbatch,
               const nn::UnitTensors& t) override {
      if (unit.name() != "layer 1" || microbatch != 0 || pass == PassKind::kBackwardWeight) return;
      const bool is_forward = pass == PassKind::kForward;
      if (is_forward) ++runs_;
      if (is_forward != (runs_ == 1)) return;
      const Tensor& x = is_forward ? t.outputs[0] : t.input_gradients[0];
      ops::fill(t.pass.ops, {.x = x, .value = kNan});
    }

   private:
    int runs_ = 0;
  };
  const Told found = told(config({}), [](int) { return std::make_unique<DifferentFaults>(); });
  EXPECT_EQ(found.code, ErrorCode::kTemporary);
  EXPECT_THAT(found.text, HasSubstr("had another loss: nan and then "));
  EXPECT_THAT(found.text, HasSubstr("in the second run first in layer 1"));
}

// Gradients are finite on every rank, but their sum is not.
TEST_F(NanFinderTest, NamesTheSumOverRanks) {
  class LargeGradients final : public nn::UnitHooks {
   public:
    explicit LargeGradients(double value) : value_(value) {}
    void after(const nn::Unit& unit, PassKind pass, int microbatch,
               const nn::UnitTensors& t) override {
      if (unit.name() != "layer 1" || pass != PassKind::kBackwardWeight || microbatch != 1) return;
      const Tensor& gradient = (*t.gradients)[unit.parameters().back()];
      ops::fill(t.pass.ops, {.x = gradient, .value = value_});
    }

   private:
    double value_;
  };
  const auto of = [](double value) {
    return [value](int) { return std::make_unique<LargeGradients>(value); };
  };
  for (const Layout& layout :
       {Layout{.data = 2}, Layout{.data = 2, .sharded = true}, Layout{.data = 2, .zero = 3}}) {
    const Told sum = told(config(layout), of(3e38));
    EXPECT_EQ(sum.code, ErrorCode::kDoNotRestart);
    EXPECT_THAT(sum.text, HasSubstr("it is the sum over ranks that is not finite, of the gradient "
                                    "of decoder.layers.1.mlp.linear_fc2.bias on rank "));
  }
  EXPECT_THAT(told(config({}), of(3e38)).text, HasSubstr("too large for fp32"));
}

// A loss that is not finite prevents the update, although the gradient is finite.
TEST_F(NanFinderTest, FindsALossThatIsNotFinite) {
  class NanLoss final : public nn::UnitHooks {
   public:
    explicit NanLoss(bool plants) : plants_(plants) {}
    void after(const nn::Unit& unit, PassKind pass, int microbatch,
               const nn::UnitTensors& t) override {
      if (!plants_ || unit.name() != "head" || pass != PassKind::kForward || microbatch != 1)
        return;
      ops::fill(t.pass.ops, {.x = t.pass.losses[0].sum, .value = kNan});
    }

   private:
    bool plants_;
  };
  const TrainConfig one = config({});
  const RunSetup setup(one);
  run_ranks(setup.config, *setup.model, [&](Rank& rank) {
    rank.initialise();
    RunData::Stream stream(*setup.data, SplitKind::kTrain, 0);
    NanLoss hooks(true);
    const StepSchedule schedule{.lr = 1e-3};
    const auto results = rank.train({&schedule, 1}, stream.source(), nullptr, &hooks);
    EXPECT_TRUE(results.front().skipped);
  });
  const Told found = told(one, [](int) { return std::make_unique<NanLoss>(true); });
  EXPECT_EQ(found.code, ErrorCode::kDoNotRestart);
  EXPECT_THAT(found.text,
              HasSubstr("first in head, forward pass of microbatch 1, on rank 0: loss"));
  // Tensor-parallel ranks have the same loss, unless a machine is faulty.
  const Told apart =
      told(config({.tensor = 2}), [](int rank) { return std::make_unique<NanLoss>(rank == 1); });
  EXPECT_EQ(apart.code, ErrorCode::kTemporary);
  EXPECT_THAT(apart.text, HasSubstr("not finite on rank 1 (tp 1, pp 0, dp 0) alone"));
}

// An asynchronous schedule has changed the weights when the step is over.
TEST_F(NanFinderTest, AnAsynchronousScheduleReportsTheFirstRun) {
  TrainConfig c = with_flags(config({.pipeline = 2, .schedule = "pipedream"}),
                             "--untie-embeddings-and-output-weights --clip-grad 0 "
                             "--pipeline-drain-interval 2 --eval-interval 0");
  const Told found =
      told(c, {.rank = 1, .unit = "layer 3", .pass = PassKind::kBackwardWeight, .microbatch = 7});
  EXPECT_EQ(found.code, ErrorCode::kDoNotRestart);
  // The update is skipped, so no loss shows the iteration.
  EXPECT_THAT(found.text, HasSubstr("iteration 8: "));
  EXPECT_THAT(found.text, HasSubstr("With --pipeline-schedule pipedream weights change"));
  EXPECT_THAT(found.text, HasSubstr("the gradient of decoder.layers.3."));
  EXPECT_THAT(found.text, HasSubstr("on rank 1 (tp 0, pp 1, dp 0)"));
}

// From the first tensor of each rank, the order selects the culprit.
TEST(NanJudge, PutsCulpritsBeforeVictims) {
  const auto found = [](PassKind pass, int microbatch, int stage, int unit, int step,
                        const char* input = "") {
    return NonFinite{.pass = pass,
                     .microbatch = microbatch,
                     .stage = stage,
                     .unit = unit,
                     .unit_name = "u",
                     .step = step,
                     .tensor = "t",
                     .input = input,
                     .weight = {}};
  };
  constexpr auto kForward = PassKind::kForward;
  constexpr auto kInput = PassKind::kBackwardInput;
  constexpr auto kWeight = PassKind::kBackwardWeight;
  const std::vector<std::pair<NonFinite, NonFinite>> pairs = {
      {found(kWeight, 9, 0, 3, 4), found(kForward, 0, 0, 0, 0, "input")},
      {found(kForward, 5, 3, 0, 0), found(kInput, 0, 0, 0, 0)},
      {found(kForward, 0, 3, 0, 0), found(kForward, 1, 0, 0, 0)},
      {found(kForward, 1, 0, 3, 0), found(kForward, 1, 1, 0, 0)},
      {found(kForward, 1, 1, 1, 7), found(kForward, 1, 1, 2, 0)},
      {found(kInput, 1, 1, 0, 0), found(kInput, 1, 0, 3, 0)},
      {found(kInput, 1, 1, 2, 0), found(kInput, 1, 1, 1, 0)},
      {found(kInput, 1, 1, 1, 5), found(kWeight, 1, 1, 1, 0)},
      {found(kForward, 1, 1, 1, 2), found(kForward, 1, 1, 1, 3)}};
  for (const auto& [culprit, victim] : pairs) {
    for (const bool is_first : {true, false}) {
      std::vector<NanEvidence> evidence(2);
      evidence[0].rank = "rank 0";
      evidence[1].rank = "rank 1";
      for (NanEvidence& e : evidence) {
        e.failed = e.failed_again = true;
        e.loss = e.loss_again = "nan";
      }
      evidence[0].first = is_first ? culprit : victim;
      evidence[1].first = is_first ? victim : culprit;
      EXPECT_THAT(judge(1, evidence, "", true).text,
                  HasSubstr(is_first ? "on rank 0:" : "on rank 1:"));
    }
  }
}

}  // namespace
}  // namespace phalanx
