// PipeDream and PipeDream-2BW train by the rules they are known for, to the last bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "delayed_updates.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

constexpr int kMicrobatches = 4;  // of an iteration

struct AsynchronousCase {
  const char* schedule;
  int stages;
  int drain_interval;
  int data = 1;
  bool bf16 = false;
  bool overlaps = false;    // the reduction of gradients, in small buckets
  bool recomputes = false;  // activations
  bool descends = false;    // by SGD, the input and the output layer at a rate of their own
};

std::ostream& operator<<(std::ostream& out, const AsynchronousCase& c) {
  return out << c.schedule << " p" << c.stages << " d" << c.data << " drained every "
             << c.drain_interval << (c.bf16 ? " bf16" : "") << (c.overlaps ? " overlap" : "")
             << (c.recomputes ? " recompute" : "") << (c.descends ? " sgd" : "");
}

// Microbatch k on stage s of p reads what k - (p - 1 - s) updates have made; every microbatch is
// one.
DelayRule pipedream(const AsynchronousCase& c) {
  return {.stages = c.stages,
          .microbatches_per_update = 1,
          .drain_interval = c.drain_interval,
          .version = [p = c.stages](int microbatch, int stage) {
            return std::max(0, microbatch - (p - 1 - stage));
          }};
}

// The microbatches of batch j read what j - 1 updates have made, on every stage.
DelayRule double_buffered(const AsynchronousCase& c) {
  return {.stages = c.stages,
          .microbatches_per_update = kMicrobatches,
          .drain_interval = c.drain_interval,
          .version = [](int microbatch, int /*stage*/) {
            return std::max(0, microbatch / kMicrobatches - 1);
          }};
}

DelayRule rule_of(const AsynchronousCase& c) {
  return std::string(c.schedule) == "pipedream" ? pipedream(c) : double_buffered(c);
}

class AsynchronousTest : public RunTest, public testing::WithParamInterface<AsynchronousCase> {
 protected:
  // Learning rate and weight decay change in every iteration, the number of tokens that count in
  // every microbatch; dropout is on.
  TrainConfig config(const std::string& save, int data, bool bf16) const {
    TrainConfig c = with_flags(
        RunTest::config(save),
        "--num-layers 4 --micro-batch-size 1 --eod-mask-loss --untie-embeddings-and-output-weights "
        "--clip-grad 0 --start-weight-decay 0 --end-weight-decay 0.3 --weight-decay-incr-style "
        "linear --eval-iters 0 --eval-interval 0");
    c.layout.global_batch_size = std::int64_t{kMicrobatches} * data;
    c.layout.world_size = data;
    c.model.bf16 = bf16;
    return c;
  }
  static TrainConfig with_pipeline(TrainConfig c, const AsynchronousCase& p) {
    c.layout.world_size *= p.stages;
    c.layout.pipeline_model_parallel_size = p.stages;
    c.layout.pipeline_schedule = p.schedule;
    c.layout.pipeline_drain_interval = p.drain_interval;
    c.layout.overlap_grad_reduce = p.overlaps;
    c.layout.ddp_bucket_size = p.overlaps ? 5000 : 0;
    if (p.recomputes) {
      set_flags(c, "--recompute-granularity full --recompute-method uniform");
    }
    return c;
  }
  std::vector<float> losses(const std::string& save) const {
    const std::vector<double> printed = RunTest::losses(save);
    return {printed.begin(), printed.end()};
  }
  CheckpointReader checkpoint(const std::string& save) const {
    return CheckpointReader::open(path(save));
  }
};

TEST_P(AsynchronousTest, TrainsByItsUpdateRule) {
  const AsynchronousCase& p = GetParam();
  TrainConfig c = config("pipeline", p.data, p.bf16);
  if (p.descends) {
    set_flags(c, "--optimizer sgd --decoupled-lr 0.05");
  }
  ASSERT_EQ(pretrain(with_pipeline(c, p)), RunEnd::kFinished);

  const RunSetup setup(c);
  DelayedUpdates direct(setup, rule_of(p));
  direct.train();
  EXPECT_EQ(losses("pipeline"), direct.losses());
  EXPECT_EQ(direct.differences(checkpoint("pipeline")), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, AsynchronousTest,
    testing::Values(
        AsynchronousCase{"pipedream", 2, 1}, AsynchronousCase{"pipedream", 2, 2},
        AsynchronousCase{"pipedream", 4, 1}, AsynchronousCase{"pipedream", 4, 3},
        AsynchronousCase{"pipedream", 4, 4},  // then the last two iterations
        AsynchronousCase{"pipedream", 2, 3, 2}, AsynchronousCase{"pipedream", 2, 3, 2, false, true},
        AsynchronousCase{"pipedream", 4, 2, 1, true},
        AsynchronousCase{"pipedream", 4, 3, 1, false, false, true},
        AsynchronousCase{"pipedream-2bw", 2, 1}, AsynchronousCase{"pipedream-2bw", 2, 3},
        AsynchronousCase{"pipedream-2bw", 4, 2}, AsynchronousCase{"pipedream-2bw", 4, 4},
        AsynchronousCase{"pipedream-2bw", 2, 3, 2},
        AsynchronousCase{"pipedream-2bw", 2, 3, 2, false, true},
        AsynchronousCase{"pipedream-2bw", 4, 3, 1, true},
        AsynchronousCase{"pipedream", 4, 3, 1, false, false, false, true},
        AsynchronousCase{"pipedream-2bw", 2, 3, 2, true, false, false, true}));

// What the schedules are compared with: without delay it is the ordinary run, with a delay it is
// not.
class DelayedUpdatesTest : public AsynchronousTest {};

TEST_P(DelayedUpdatesTest, WithoutDelayIsTheOrdinaryRun) {
  const AsynchronousCase& p = GetParam();
  const TrainConfig c = config("ordinary", p.data, p.bf16);
  ASSERT_EQ(pretrain(c), RunEnd::kFinished);
  const RunSetup setup(c);
  DelayRule rule = double_buffered(p);
  rule.version = [](int microbatch, int /*stage*/) { return microbatch / kMicrobatches; };
  DelayedUpdates direct(setup, rule);
  direct.train();
  EXPECT_EQ(losses("ordinary"), direct.losses());
  EXPECT_EQ(direct.differences(checkpoint("ordinary")), std::vector<std::string>{});
}

TEST_P(DelayedUpdatesTest, ADelayShows) {
  const AsynchronousCase& p = GetParam();
  const RunSetup setup(config("", p.data, p.bf16));
  std::vector<std::vector<float>> losses;
  DelayRule late = pipedream(p);
  late.version = [p](int microbatch, int stage) {
    return std::max(0, microbatch - (p.stages - 1 - stage) - (stage == 0 ? 1 : 0));
  };
  for (const DelayRule& rule : {pipedream(p), double_buffered(p), late}) {
    DelayedUpdates direct(setup, rule);
    direct.train();
    losses.push_back(direct.losses());
  }
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_NE(losses[0], losses[2]);
}

INSTANTIATE_TEST_SUITE_P(Simulation, DelayedUpdatesTest,
                         testing::Values(AsynchronousCase{"", 4, 3}, AsynchronousCase{"", 2, 2, 2},
                                         AsynchronousCase{"", 4, 2, 1, true}));

}  // namespace
}  // namespace phalanx
