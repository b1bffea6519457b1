// The losses that a run tells, against averages that are computed by hand from the losses of every
// microbatch alone: --loss-average token, and Megatron's mean of means.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "layout.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "tiny_batches.h"

namespace phalanx {
namespace {

constexpr auto kProducts = cpu::ProductPrecision::kFp32;

TrainConfig config_without_dropout(const Layout& layout) {
  TrainConfig c = with_flags(
      config_of(layout), "--hidden-dropout 0 --attention-dropout 0 --pipeline-drain-interval 1");
  if (!layout.tied) c.optimizer.clip_grad = 0.0;  // for what updates asynchronously
  resolve(c, false);
  return c;
}

// What every rank gets of the first global batch with the weights that it begins with.
using Work = std::function<StepResult(Rank&, const BatchSource&)>;
std::vector<StepResult> on_ranks(const TrainConfig& c, const Work& work) {
  const auto model = make_model(c, kVocabulary);
  const StepPrograms programs = step_programs(c);
  const ParallelGrids grids = parallel_grids(c.layout);
  std::vector<StepResult> results(static_cast<std::size_t>(grids.world_size()));
  run_local_ranks(grids.world_size(), {}, [&](Communicator& world) {
    const RankCommunicators ranks(grids, world);
    RankArenas arenas(
        plan_memory(c, *model, programs, world.rank(), {.products = kProducts}).bytes);
    const auto backend = make_cpu_backend(1, kProducts);
    Rank rank(c, *model, programs, ranks, *backend, arenas);
    rank.initialise();
    HostBatch batch;
    const auto source = [&](int microbatch) -> const HostBatch& {
      const std::int64_t index = microbatch * data_parallel_size(c.layout) + ranks.coordinates.data;
      batch = tiny_batch(c, model->batch_schema(), index * c.layout.micro_batch_size);
      return batch;
    };
    results[static_cast<std::size_t>(world.rank())] = work(rank, source);
    rank.finish_gather();
  });
  return results;
}

std::vector<StepResult> evaluated(const TrainConfig& c) {
  return on_ranks(c, [](Rank& rank, const BatchSource& source) { return rank.evaluate(source); });
}

// Weights stay what they are, those that are updated while the pipeline is full as well.
std::vector<StepResult> trained(const TrainConfig& c) {
  return on_ranks(c, [](Rank& rank, const BatchSource& source) {
    return rank.train_step({.lr = 0.0}, source);
  });
}

// Of one loss, over the microbatches of a global batch.
struct Averages {
  double token = 0.0;
  double trained = 0.0;    // the mean of means: what the gradients are of
  double evaluated = 0.0;  // likewise without microbatches that are masked throughout
};

std::vector<Averages> averages_by_hand(Layout layout) {
  layout = on_one_rank(layout);
  layout.mean_of_means = false;
  const TrainConfig c = config_without_dropout(layout);
  std::vector<std::vector<LossResult>> alone;  // by microbatch
  on_ranks(c, [&](Rank& rank, const BatchSource& source) {
    for (int m = 0; m < num_microbatches(c.layout); ++m) {
      const auto again = [&](int) -> const HostBatch& { return source(m); };
      alone.push_back(rank.evaluate(again).losses);
    }
    return StepResult{};
  });
  std::vector<Averages> averages;
  for (std::size_t loss = 0; loss < alone.front().size(); ++loss) {
    double means = 0.0, sum = 0.0, count = 0.0, microbatches = 0.0;
    for (const auto& losses : alone) {
      const LossResult& own = losses[loss];
      means += own.mean;
      sum += own.mean * own.count;
      count += own.count;
      microbatches += own.count > 0.0 ? 1.0 : 0.0;
    }
    averages.push_back(
        {sum / count, means / static_cast<double>(alone.size()), means / microbatches});
  }
  return averages;
}

std::vector<Layout> layouts_of(const std::string& family) {
  const Layout model{.layers = 4, .mean_of_means = true, .family = family, .decoder_layers = 4};
  std::vector<Layout> layouts(4, model);
  layouts[1].data = 2;
  layouts[2].tensor = layouts[2].data = 2;
  layouts[3].pipeline = layouts[3].data = 2;
  layouts[3].split = family == "t5" ? 1 : 0;
  if (family == "t5") return layouts;
  for (const char* schedule : {"pipedream", "pipedream-2bw", "interleaved"}) {
    Layout pipeline = model;
    pipeline.pipeline = pipeline.data = 2;
    pipeline.schedule = schedule;
    pipeline.tied = false;
    layouts.push_back(pipeline);
  }
  return layouts;
}

class LossAverage : public testing::TestWithParam<const char*> {};

TEST_P(LossAverage, IsWhatIsTrained) {
  for (const Layout& layout : layouts_of(GetParam())) {
    SCOPED_TRACE(name_of(layout));
    const std::vector<Averages> expected = averages_by_hand(layout);
    EXPECT_GT(std::abs(expected[0].trained - expected[0].token), 1e-5 * expected[0].token);
    const TrainConfig c = config_without_dropout(layout);
    const auto expect = [&](const std::vector<StepResult>& found, double Averages::*average) {
      for (const StepResult& result : found) {
        ASSERT_EQ(result.losses.size(), expected.size());
        for (std::size_t loss = 0; loss < expected.size(); ++loss) {
          const double wanted = expected[loss].*average;
          EXPECT_NEAR(result.losses[loss].mean, wanted, 1e-6 * wanted) << "loss " << loss;
        }
      }
    };
    expect(trained(c), &Averages::trained);
    expect(evaluated(c), &Averages::evaluated);
    Layout by_token = layout;
    by_token.mean_of_means = false;
    if (layout.family == "bert" && layout.schedule.starts_with("pipedream")) continue;  // refused
    expect(evaluated(config_without_dropout(by_token)), &Averages::token);
  }
}

// A BERT of one sample a microbatch has some without a masked word.
TEST(LossAverageOfBert, LeavesOutOfEvaluationsWhatHasNothingToLearn) {
  const Averages words = averages_by_hand({.family = "bert"}).front();
  EXPECT_GT(words.evaluated, 1.1 * words.trained);
}

INSTANTIATE_TEST_SUITE_P(Families, LossAverage, testing::Values("gpt", "bert", "t5"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace phalanx
