// Every schedule that can be trained with, on several numbers of stages: the bits of no pipeline.

#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "compare.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

using testing::Values;

// Stale weights have other bits.
std::set<std::string> synchronous_schedules() {
  std::set<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.update == UpdateRule::kFlush && kind.directions() == 1) names.emplace(kind.name);
  }
  return names;
}

struct PipelineCase {
  int pipeline;
  int layers;
  std::vector<int> chunks;  // that a rank may have
  friend std::ostream& operator<<(std::ostream& out, const PipelineCase& c) {
    return out << "p" << c.pipeline << ", " << c.layers << " layers";
  }
};

class Pipelines : public testing::TestWithParam<PipelineCase> {};

TEST_P(Pipelines, TrainAsNoPipelineDoes) {
  const PipelineCase& c = GetParam();
  std::set<std::string> trained;
  for (const bool tied : {true, false}) {
    // A head of its own has no business with schedules: two stages show it.
    if (!tied && c.pipeline > 2) continue;
    const TrainingResult plain = train(*legal_config({.layers = c.layers, .tied = tied}));
    for (const std::string& schedule : synchronous_schedules()) {
      for (const int chunks : c.chunks) {
        const Layout layout{.pipeline = c.pipeline,
                            .schedule = schedule,
                            .chunks = chunks,
                            .layers = c.layers,
                            .tied = tied};
        const auto config = legal_config(layout);
        if (!config) continue;
        SCOPED_TRACE(name_of(layout));
        const TrainingResult result = train(*config);
        EXPECT_EQ(result.faults, std::vector<std::string>{});
        EXPECT_EQ(first_difference(result, plain), "");
        trained.insert(schedule);
      }
    }
  }
  EXPECT_EQ(trained, synchronous_schedules());
}

INSTANTIATE_TEST_SUITE_P(Stages, Pipelines,
                         Values(PipelineCase{2, 8, {1, 2, 3, 4}}, PipelineCase{3, 10, {1, 2, 3}},
                                PipelineCase{4, 16, {1, 2, 4}}),
                         [](const auto& c) { return "p" + std::to_string(c.param.pipeline); });

// What is not in the matrix.
TEST(PipelineOptions, MayHaveDataParallelRanksOutermost) {
  const Layout layout{.tensor = 2,
                      .data = 2,
                      .pipeline = 2,
                      .schedule = "interleaved",
                      .chunks = 2,
                      .zero = {.stage = 1},
                      .layers = 5};
  TrainConfig config = with_flags(config_of(layout), "--use-tp-pp-dp-mapping");
  resolve(config, false);
  const TrainingResult result = train(config);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  EXPECT_EQ(first_difference(result, train(*legal_config(without_bitwise_features(layout)))), "");
}

TEST(PipelineOptions, MayHaveOtherNumbersOfLayersAtTheirEnds) {
  const Layout layout{.pipeline = 2, .schedule = "interleaved", .chunks = 2, .layers = 6};
  TrainConfig config =
      with_flags(config_of(layout),
                 "--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 4");
  resolve(config, false);
  const TrainingResult result = train(config);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  EXPECT_EQ(first_difference(result, train(*legal_config(on_one_rank(layout)))), "");
}

TEST(PipelineOptions, MayHaveMicrobatchesInLargerGroups) {
  const Layout layout{.pipeline = 2, .schedule = "interleaved", .chunks = 2, .layers = 4};
  const TrainingResult plain = train(*legal_config(on_one_rank(layout)));
  for (const std::int64_t group : {3, 5, 16}) {
    TrainConfig config = config_of(layout);
    config.layout.microbatch_group_size_per_virtual_pipeline_stage = group;
    resolve(config, false);
    const TrainingResult result = train(config);
    EXPECT_EQ(result.faults, std::vector<std::string>{});
    EXPECT_EQ(first_difference(result, plain), "") << "groups of " << group;
  }
}

}  // namespace
}  // namespace phalanx
