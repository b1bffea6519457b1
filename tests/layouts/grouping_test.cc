// How samples are grouped into microbatches: of no matter where the loss is an average over tokens,
// and just what decides where it is a mean of means.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "compare.h"

namespace phalanx {
namespace {

TrainingResult train_grouped(const Layout& layout, std::int64_t micro_batch) {
  TrainConfig config = config_of(layout);
  config.layout.micro_batch_size = micro_batch;
  resolve(config, false);
  TrainingResult result = train(config);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  return result;
}

TEST(Grouping, ThePerTokenLossDoesNotDependOnTheMicrobatchSize) {
  const TrainingResult one_by_one = train_grouped({}, 1);
  for (const std::int64_t micro_batch : {2, 4, 16}) {
    SCOPED_TRACE(fmt::format("microbatches of {}", micro_batch));
    const Distance d = distance(train_grouped({}, micro_batch), one_by_one);
    EXPECT_LE(d.loss, 1e-5);
    EXPECT_LE(d.gradient, 1e-5) << d.gradient_of;
    EXPECT_LE(d.weight, 5e-4) << d.weight_of;
  }
}

TEST(Grouping, NorOnWhichRanksTheMicrobatchesAre) {
  const TrainingResult one_rank = train_grouped({}, 4);
  for (const Layout& layout : {Layout{.data = 8}, Layout{.tensor = 2, .data = 4}}) {
    SCOPED_TRACE(name_of(layout));
    const Distance d = distance(train_grouped(layout, 1), one_rank);
    EXPECT_LE(d.loss, 1e-5);
    EXPECT_LE(d.gradient, 1e-5) << d.gradient_of;
  }
}

TEST(Grouping, AMeanOfMeansIsAnotherLossWhereMasksAreUneven) {
  const TrainingResult by_token = train_grouped({}, 1);
  const TrainingResult by_microbatch = train_grouped({.mean_of_means = true}, 1);
  // Of the same weights: what is reported is what is trained.
  EXPECT_NE(by_microbatch.losses.front(), by_token.losses.front());
  EXPECT_GT(distance(by_microbatch, by_token).loss, 1e-3);
  EXPECT_GT(distance(by_microbatch, by_token).weight, 1e-2);
}

TEST(Grouping, AMeanOfMeansDependsOnTheGroupsAndNotOnTheirPlace) {
  const Layout one_rank{.mean_of_means = true};
  const TrainingResult pairs = train_grouped(one_rank, 2);
  EXPECT_GT(distance(train_grouped(one_rank, 1), pairs).loss, 1e-3);
  for (const Layout& layout :
       {Layout{.data = 8, .mean_of_means = true},
        Layout{.tensor = 2, .data = 2, .sequence_parallel = true, .mean_of_means = true},
        Layout{.data = 4, .zero = {.stage = 1}, .mean_of_means = true}}) {
    SCOPED_TRACE(name_of(layout));
    const Distance d = distance(train_grouped(layout, 2), pairs);
    EXPECT_LE(d.loss, 1e-5);
    EXPECT_LE(d.gradient, 1e-5) << d.gradient_of;
    EXPECT_LE(d.weight, 5e-4) << d.weight_of;
  }
}

}  // namespace
}  // namespace phalanx
