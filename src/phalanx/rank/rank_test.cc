#include "phalanx/rank/rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

class RankTest : public RunTest {
 protected:
  TrainConfig resolved(const Layout& layout) const {
    TrainConfig c = with_flags(config(""), "--micro-batch-size 1");
    c = with_layout(std::move(c), layout);
    resolve(c, true);
    return c;
  }

  // Four layers; the pipeline is drained every two iterations.
  TrainConfig asynchronous(const Layout& layout) const {
    TrainConfig c =
        with_flags(config(""),
                   "--num-layers 4 --micro-batch-size 1 --untie-embeddings-and-output-weights "
                   "--clip-grad 0 --pipeline-drain-interval 2 --eval-interval 0 --train-iters 3");
    c = with_layout(std::move(c), layout);
    resolve(c, true);
    return c;
  }

  // The results of the run's first global batch, by rank.
  using Work = std::function<StepResult(Rank&, const BatchSource&)>;
  static std::vector<StepResult> first_batch(const TrainConfig& config, const Work& work) {
    const RunSetup setup(config);
    std::vector<StepResult> results(static_cast<std::size_t>(config.layout.world_size));
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
      results[static_cast<std::size_t>(rank.ranks().world->rank())] = work(rank, stream.source());
    });
    return results;
  }
  static std::vector<StepResult> first_step(const TrainConfig& config) {
    return first_batch(config, [](Rank& rank, const BatchSource& source) {
      return rank.train_step({.lr = 1e-3}, source);
    });
  }
  static std::vector<StepResult> first_evaluation(const TrainConfig& config) {
    return first_batch(config,
                       [](Rank& rank, const BatchSource& source) { return rank.evaluate(source); });
  }
};

TEST_F(RankTest, EveryRankKnowsTheStepsNumbers) {
  const StepResult expected = first_step(resolved({})).front();
  EXPECT_EQ(expected.tokens(), 96.0);
  EXPECT_GT(expected.grad_norm, 0.1);
  for (const Layout& layout :
       {Layout{.tensor = 2, .sequence = true}, Layout{.data = 4},
        Layout{.tensor = 2, .data = 2, .sequence = true, .sharded = true, .overlaps = true},
        Layout{.tensor = 2, .data = 2, .sequence = true, .overlaps = true, .zero = 3},
        Layout{.data = 4, .zero = 2, .copies = 2}}) {
    const auto results = first_step(resolved(layout));
    for (const StepResult& result : results) {
      EXPECT_EQ(result.tokens(), expected.tokens());
      EXPECT_NEAR(result.loss(), expected.loss(), 1e-6 * expected.loss());
      EXPECT_NEAR(result.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm);
      EXPECT_FALSE(result.skipped);
      EXPECT_EQ(result.loss(), results[0].loss());
      EXPECT_EQ(result.grad_norm, results[0].grad_norm);
    }
  }
}

// Every stage reports the loss, which only the stage with the head computes, and the norm and the
// zeros of the whole model: the same bits as one rank.
TEST_F(RankTest, EveryStageKnowsTheStepsNumbers) {
  const auto first = [&](const Layout& layout) {
    TrainConfig c =
        with_flags(config(""), "--num-layers 4 --micro-batch-size 1 --log-num-zeros-in-grad");
    c = with_layout(std::move(c), layout);
    resolve(c, true);
    return first_step(c);
  };
  const StepResult expected = first({}).front();
  for (const Layout& layout : {Layout{.pipeline = 2}, Layout{.pipeline = 4, .schedule = "zb-h1"},
                               Layout{.pipeline = 2, .schedule = "interleaved"},
                               Layout{.pipeline = 2, .schedule = "zb-v"}}) {
    for (const StepResult& result : first(layout)) {
      EXPECT_EQ(result.loss(), expected.loss()) << layout.schedule;
      EXPECT_EQ(result.tokens(), expected.tokens()) << layout.schedule;
      EXPECT_EQ(result.grad_norm, expected.grad_norm) << layout.schedule;
      EXPECT_EQ(result.zeros_in_grad, expected.zeros_in_grad) << layout.schedule;
    }
  }
}

// Stages that update at different times report the loss, but no norm of the whole gradient.
TEST_F(RankTest, EveryAsynchronousStageKnowsTheLoss) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    for (const std::int64_t data : {1, 2}) {
      const TrainConfig c = asynchronous({.data = data, .pipeline = 2, .schedule = schedule});
      const auto results = first_step(c);
      for (const StepResult& result : results) {
        EXPECT_EQ(result.loss(), results.back().loss()) << schedule;
        EXPECT_EQ(result.tokens(), 4.0 * 24.0) << schedule;
        EXPECT_TRUE(std::isnan(result.grad_norm)) << schedule;
        EXPECT_FALSE(result.skipped) << schedule;
      }
      EXPECT_GT(results.back().loss(), 1.0);
    }
  }
}

TEST_F(RankTest, EveryStageKnowsAnEvaluation) {
  const StepResult expected = first_evaluation(asynchronous({})).front();
  EXPECT_GT(expected.loss(), 1.0);
  EXPECT_EQ(expected.tokens(), 4.0 * 24.0);
  std::vector<Layout> layouts = {{.pipeline = 4}, {.pipeline = 4, .schedule = "pipedream"}};
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.directions() == 1) layouts.push_back({.pipeline = 2, .schedule = kind.name});
  }
  for (const Layout& layout : layouts) {
    for (const StepResult& result : first_evaluation(asynchronous(layout))) {
      EXPECT_EQ(result.loss(), expected.loss()) << layout.schedule;
      EXPECT_EQ(result.tokens(), expected.tokens()) << layout.schedule;
    }
  }
}

// A rank keeps only the weight versions that its passes read: p - r on the r-th of p stages, or two
// with double buffering.
TEST_F(RankTest, KeepsTheWeightsThatAreRead) {
  const auto parameters = [&](const char* schedule, int rank) {
    const TrainConfig c = asynchronous({.pipeline = 4, .schedule = schedule});
    return plan_memory(c, *make_model(c, 49), step_programs(c), rank,
                       {cpu::ProductPrecision::kFp32})
        .bytes["parameters"];
  };
  for (int rank = 0; rank < 4; ++rank) {
    const std::int64_t once = parameters("1f1b", rank);
    EXPECT_EQ(parameters("pipedream", rank), (4 - rank) * once);
    EXPECT_EQ(parameters("pipedream-2bw", rank), 2 * once);
  }
}

// With one microbatch the mean over all tokens equals the mean of means, masked tokens or not.
TEST_F(RankTest, AveragesOfOneMicrobatchAgree) {
  TrainConfig c = with_flags(config(""), "--micro-batch-size 4 --eod-mask-loss");
  resolve(c, true);
  const StepResult token = first_step(c).front();
  c.optimizer.loss_average = "microbatch";
  const StepResult microbatch = first_step(c).front();
  ASSERT_LT(token.tokens(), 96.0);
  EXPECT_EQ(microbatch.losses.front().count, 1.0);
  EXPECT_EQ(token.loss(), microbatch.loss());
  EXPECT_NEAR(token.grad_norm, microbatch.grad_norm, 1e-5 * token.grad_norm);
}

// Without tied embeddings the rows of ids and positions that do not occur have no gradient.
// Gradients of key biases are sums of rounding errors around zero, and some may be exactly zero.
TEST_F(RankTest, CountsZeroGradients) {
  const auto counted = [&](const Layout& layout) {
    TrainConfig c = with_flags(config(""),
                               "--micro-batch-size 1 --untie-embeddings-and-output-weights "
                               "--max-position-embeddings 40 --log-num-zeros-in-grad");
    c = with_layout(std::move(c), layout);
    resolve(c, true);
    return c;
  };
  const RunSetup setup(counted({}));
  std::set<std::int32_t> ids;
  RunData::Stream stream(*setup.data, SplitKind::kTrain, 0);
  const BatchSource source = stream.source();
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    const HostBatch& batch = source(microbatch);
    const auto tokens = batch.column<std::int32_t>("tokens");
    ids.insert(tokens.begin(), tokens.end());
  }
  ASSERT_LT(ids.size(), 49U);
  const auto zeros = static_cast<double>((49 - std::ssize(ids)) * 32 + (40 - 24) * 32);
  constexpr double kKeyBiases = 2 * 32;
  for (const Layout& layout :
       {Layout{}, Layout{.tensor = 4}, Layout{.tensor = 2, .sequence = true}, Layout{.data = 2},
        Layout{.tensor = 2, .data = 2, .sharded = true, .overlaps = true}}) {
    for (const StepResult& result : first_step(counted(layout))) {
      EXPECT_GE(result.zeros_in_grad, zeros) << layout.tensor << " x " << layout.data;
      EXPECT_LE(result.zeros_in_grad, zeros + kKeyBiases) << layout.tensor << " x " << layout.data;
    }
  }
  const auto plain = first_step(counted({.tensor = 2, .data = 2}));
  const auto sharded = first_step(counted({.tensor = 2, .data = 2, .sharded = true}));
  EXPECT_EQ(plain[0].zeros_in_grad, sharded[3].zeros_in_grad);
}

// Rows of keys and values that several ranks have are counted only once, in the zeros and in both
// norms.
TEST_F(RankTest, CountsRowsOfSeveralRanksOnce) {
  const auto counted = [&](const Layout& layout) {
    TrainConfig c = with_flags(
        config(""),
        "--micro-batch-size 1 --untie-embeddings-and-output-weights --group-query-attention "
        "--num-query-groups 1 --log-num-zeros-in-grad --log-params-norm");
    c = with_layout(std::move(c), layout);
    resolve(c, true);
    return c;
  };
  const StepResult one = first_step(counted({})).front();
  for (const Layout& layout :
       {Layout{.tensor = 2}, Layout{.tensor = 4}, Layout{.tensor = 4, .sequence = true},
        Layout{.tensor = 2, .data = 2, .sharded = true, .overlaps = true}}) {
    SCOPED_TRACE(fmt::format("{} x {}", layout.tensor, layout.data));
    for (const StepResult& result : first_step(counted(layout))) {
      // Gradients of key biases are sums of roundings around zero.
      constexpr double kKeyBiases = 2 * 8;
      EXPECT_NEAR(result.zeros_in_grad, one.zeros_in_grad, kKeyBiases);
      EXPECT_NEAR(result.grad_norm, one.grad_norm, 1e-5 * one.grad_norm);
      EXPECT_NEAR(*result.parameters_norm, *one.parameters_norm, 1e-6 * *one.parameters_norm);
    }
  }
}

// Every data-parallel rank has its own samples; the first rank of a tensor-parallel group reads.
TEST_F(RankTest, ReadsItsOwnSamplesOnce) {
  const TrainConfig config = resolved({.tensor = 2, .data = 2});
  const RunSetup setup(config);
  std::mutex mutex;
  std::map<int, std::vector<std::int64_t>> samples;  // by rank
  run_ranks(setup.config, *setup.model, [&](Rank& rank) {
    rank.initialise();
    const int number = rank.ranks().world->rank();
    RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
    for (int step = 0; step < 2; ++step) {
      const BatchSource inner = stream.source();
      rank.train_step({.lr = 1e-3}, [&](int microbatch) -> const HostBatch& {
        const HostBatch& batch = inner(microbatch);
        const std::lock_guard lock(mutex);
        samples[number].push_back(batch.column<std::int64_t>("sample").front());
        return batch;
      });
    }
  });
  // Ranks 0 and 2 are the first of their tensor-parallel groups.
  EXPECT_EQ(samples,
            (std::map<int, std::vector<std::int64_t>>{{0, {0, 2, 4, 6}}, {2, {1, 3, 5, 7}}}));
}

// After an error the source is not asked again, and no rank waits for the failed one.
TEST_F(RankTest, AFaultOfOneSourceEndsAll) {
  for (const Layout& layout :
       {Layout{.tensor = 2, .data = 2},
        Layout{.tensor = 2, .data = 2, .sequence = true, .sharded = true, .overlaps = true}}) {
    const TrainConfig config = resolved(layout);
    const RunSetup setup(config);
    try {
      run_ranks(setup.config, *setup.model, [&](Rank& rank) {
        rank.initialise();
        RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
        for (int step = 0; step < 3; ++step) {
          const BatchSource inner = stream.source();
          rank.train_step({.lr = 1e-3}, [&](int microbatch) -> const HostBatch& {
            if (step == 1 && microbatch == 1 && rank.ranks().coordinates.data == 1) {
              throw IoError("the file is gone");
            }
            return inner(microbatch);
          });
        }
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_EQ(std::string(error.what()), "the file is gone");
    }
  }
}

// After a step that every rank updates for itself, the copies of all weights are equal.
TEST_F(RankTest, CopiesStayEqual) {
  const TrainConfig config = resolved({.tensor = 2, .data = 2, .sequence = true, .sharded = true});
  const RunSetup setup(config);
  std::array<std::vector<float>, 4> weights;
  run_ranks(setup.config, *setup.model, [&](Rank& rank) {
    rank.initialise();
    RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
    for (int step = 1; step <= 3; ++step) {
      rank.train_step({.lr = 1e-2, .adam_step = step}, stream.source());
    }
    const auto values = rank.parameters().flat().span<float>();
    weights[static_cast<std::size_t>(rank.ranks().world->rank())].assign(values.begin(),
                                                                         values.end());
    const nn::ParamTable& table = rank.table();
    for (ParamId id = 0; id < table.size(); ++id) {
      if (table[id].cut_over.has(Axis::kTensor)) continue;
      // Norms, positions and row-parallel biases: the maximum over the group is each rank's value.
      const Tensor& weight = rank.parameters().weight(id);
      std::vector<float> copy(weight.span<float>().begin(), weight.span<float>().end());
      const Tensor other = rank.gradients().flat().slice(0, 0, weight.count());
      std::memcpy(other.data(), copy.data(), copy.size() * sizeof(float));
      rank.ranks()
          .tensor->all_reduce(rank.context(), other, Reduction::kMax)
          .wait(rank.context().queue);
      EXPECT_TRUE(std::equal(copy.begin(), copy.end(), other.span<float>().begin()))
          << table[id].name;
    }
  });
  EXPECT_EQ(weights[0], weights[2]);  // data-parallel copies
  EXPECT_EQ(weights[1], weights[3]);
  EXPECT_NE(weights[0], weights[1]);
}

}  // namespace
}  // namespace phalanx
