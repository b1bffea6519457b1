#include "phalanx/watch/nan_watch.h"

#include <limits>
#include <string>
#include <vector>

#include "phalanx/ops/elementwise.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using nn::PassKind;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Plants NaN after the check, so that the watch finds the victim.
class PlantAfterCheck final : public nn::UnitHooks {
 public:
  PlantAfterCheck(NanWatch& watch, PassKind pass) : watch_(watch), pass_(pass) {}
  void after(const nn::Unit& unit, PassKind pass, int microbatch,
             const nn::UnitTensors& t) override {
    watch_.after(unit, pass, microbatch, t);
    if (unit.name() != "layer 1" || pass != pass_ || microbatch != 2) return;
    const auto streams = pass == PassKind::kForward ? t.outputs : t.input_gradients;
    ops::fill(t.pass.ops, {.x = streams[0], .value = kNan});
  }

 private:
  NanWatch& watch_;
  PassKind pass_;
};

class NanWatchTest : public RunTest {
 protected:
  TrainConfig config(const Layout& layout) const {
    return with_layout(with_flags(RunTest::config(""), "--micro-batch-size 1 --num-layers 4"),
                       layout);
  }
};

// Without a fault nothing is found, whatever unwritten memory holds.
TEST_F(NanWatchTest, FindsNothingInAFiniteStep) {
  std::vector<TrainConfig> configs = {config({}), config({}), config({}), config({}), config({})};
  configs[1].model.bf16 = true;
  configs[1].model.untie_embeddings_and_output_weights = true;
  configs[2].model.attention_backend = "unfused";
  configs[2].layout.recompute_granularity = "selective";
  configs[3].layout.recompute_granularity = "full";
  configs[3].layout.recompute_method = "uniform";
  configs[3].layout.recompute_num_layers = 2;
  configs[4].model.group_query_attention = true;
  configs[4].model.num_query_groups = 2;
  for (const Layout& layout :
       {Layout{.tensor = 2, .sequence = true}, Layout{.pipeline = 2, .schedule = "zb-v"},
        Layout{.data = 2, .sharded = true, .overlaps = true}}) {
    configs.push_back(config(layout));
  }
  for (const TrainConfig& c : configs) {
    const RunSetup setup(c);
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
      for (int step = 1; step <= 2; ++step) {
        NanWatch watch(rank, setup.programs.placement());
        const StepSchedule schedule{.lr = 1e-3, .adam_step = step};
        rank.train({&schedule, 1}, stream.source(), nullptr, &watch);
        EXPECT_FALSE(watch.first()) << watch.first()->unit_name << ": " << watch.first()->tensor;
      }
    });
  }
}

// A padding query sees no key: its log-sum-exp is minus infinity, which is no fault.
TEST_F(NanWatchTest, ARowThatSeesNoKeyIsNoFault) {
  TrainConfig c = with_flags(config({}), "--reset-attention-mask");
  const RunSetup setup(c);
  run_ranks(setup.config, *setup.model, [&](Rank& rank) {
    rank.initialise();
    RunData::Stream stream(*setup.data, SplitKind::kTrain, 0);
    const BatchSource whole = stream.source();
    HostBatch padded;
    const auto source = [&](int microbatch) -> const HostBatch& {
      padded = whole(microbatch);
      padded.column<std::int32_t>("document").back() = -1;
      return padded;
    };
    NanWatch watch(rank, setup.programs.placement());
    const StepSchedule schedule{.lr = 1e-3};
    const auto results = rank.train({&schedule, 1}, source, nullptr, &watch);
    EXPECT_FALSE(results.front().skipped);
    EXPECT_FALSE(watch.first()) << watch.first()->unit_name << ": " << watch.first()->tensor;
  });
}

// The first tensor in the order of computation is named; a victim also names its input.
TEST_F(NanWatchTest, NamesTheFirstTensorOfAUnit) {
  const auto victim_of = [&](PassKind planted) {
    const RunSetup setup(config({}));
    NonFinite found;
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      RunData::Stream stream(*setup.data, SplitKind::kTrain, 0);
      NanWatch watch(rank, setup.programs.placement());
      PlantAfterCheck hooks(watch, planted);
      const StepSchedule schedule{.lr = 1e-3};
      rank.train({&schedule, 1}, stream.source(), nullptr, &hooks);
      found = watch.first().value();
    });
    return found;
  };
  const NonFinite forward = victim_of(PassKind::kForward);
  EXPECT_EQ(forward.pass, PassKind::kForward);
  EXPECT_EQ(forward.unit_name, "layer 2");
  EXPECT_EQ(forward.microbatch, 2);
  EXPECT_EQ(forward.stage, 0);
  EXPECT_EQ(forward.unit, 3);  // after the embedding
  EXPECT_EQ(forward.step, 0);
  EXPECT_EQ(forward.tensor, "decoder.layers.2.input_layernorm.mean");
  EXPECT_EQ(forward.input, "input");
  EXPECT_EQ(forward.weight, "");

  const NonFinite backward = victim_of(PassKind::kBackwardInput);
  EXPECT_EQ(backward.pass, PassKind::kBackwardInput);
  EXPECT_EQ(backward.unit_name, "layer 0");
  EXPECT_EQ(backward.microbatch, 2);
  EXPECT_EQ(backward.step, 0);
  EXPECT_EQ(backward.tensor, "fc2 output gradient");
  EXPECT_EQ(backward.input, "output gradient");
}

}  // namespace
}  // namespace phalanx
