#include "phalanx/train/step_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/rules/resolve.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

TEST(MeasuredCosts, AreMeansByStage) {
  const auto timed = [](ActionKind kind, int chunk, int microbatch, double begin, double end) {
    return TimedAction{.action = pass(kind, chunk, microbatch), .begin = begin, .end = end};
  };
  using enum ActionKind;
  // Stages 0 and 3 are rank 0's chunks.
  const Timeline timeline = {
      {timed(kForward, 0, 0, 0, 2), timed(kForward, 0, 1, 2, 6), timed(kForward, 1, 0, 7, 8),
       timed(kBackward, 1, 0, 10, 14), timed(kBackward, 0, 0, 20, 26)},
      {timed(kForward, 0, 0, 2, 3), timed(kBackwardInput, 0, 0, 5, 8),
       timed(kBackwardInput, 0, 1, 8, 13), timed(kBackwardWeight, 0, 0, 13, 14)}};
  const Costs costs = measured_costs(timeline, Placement::wave(2, 2));
  ASSERT_EQ(costs.stages.size(), 4U);
  EXPECT_EQ(costs.message(), 0.0);
  const auto expect = [&](int stage, double forward, double input, double weight) {
    EXPECT_EQ(costs.stage(stage).forward, forward) << stage;
    EXPECT_EQ(costs.stage(stage).backward_input, input) << stage;
    EXPECT_EQ(costs.stage(stage).backward_weight, weight) << stage;
  };
  expect(0, 3, 3, 3);  // a fused pass in halves
  expect(1, 1, 4, 1);
  expect(2, 0, 0, 0);  // nothing ran
  expect(3, 1, 2, 2);
}

class StepTraceTest : public RunTest {
 protected:
  TrainConfig config(const Layout& layout) const {
    TrainConfig c = with_flags(RunTest::config(""),
                               "--num-layers 4 --micro-batch-size 1 --global-batch-size 8 "
                               "--train-iters 3 --eval-iters 0 --eval-interval 0");
    c.run.trace = path(fmt::format("{}.json", layout.name));
    return with_layout(std::move(c), layout);
  }

  struct Span {
    std::string name;
    double begin = 0.0, end = 0.0;
  };
  // The passes of the written file by process (0: simulated, 1: measured) and rank.
  using Spans = std::map<std::pair<int, int>, std::vector<Span>>;
  static Spans read(const TrainConfig& config) {
    Spans spans;
    const Json trace = Json::parse(read_file(config.run.trace));
    for (const Json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const double begin = event.at("ts").get<double>();
      spans[{event.at("pid").get<int>(), event.at("tid").get<int>()}].push_back(
          {event.at("name").get<std::string>(), begin, begin + event.at("dur").get<double>()});
    }
    return spans;
  }

  // Both pictures have the passes of the schedule, in its order, one after the other.
  static void expect_passes_of(const Schedule& schedule, const Spans& spans) {
    const int ranks = schedule.placement.ranks();
    ASSERT_EQ(spans.size(), 2U * static_cast<std::size_t>(ranks));
    double first = 1e9;
    for (const auto& [place, found] : spans) {
      std::vector<std::string> names, expected;
      for (const Action& action : schedule.ranks[static_cast<std::size_t>(place.second)]) {
        if (is_pass(action.kind)) expected.push_back(pass_name(action, schedule.placement));
      }
      for (std::size_t i = 0; i < found.size(); ++i) {
        names.push_back(found[i].name);
        EXPECT_GE(found[i].end, found[i].begin);
        const double before = i > 0 ? found[i - 1].end : 0.0;
        EXPECT_GE(found[i].begin + 0.002, before);  // three decimals
        if (place.first == 1) first = std::min(first, found[i].begin);
      }
      EXPECT_EQ(names, expected) << "rank " << place.second << " of picture " << place.first;
    }
    EXPECT_EQ(first, 0.0);
  }
  std::string svg(const Layout& layout) const {
    return read_file(path(fmt::format("{}.svg", layout.name)));
  }
};

// The first of several pipelines is drawn.
TEST_F(StepTraceTest, HasThePassesOfAllRanksOfAPipeline) {
  for (const Layout& layout :
       {Layout{.name = "one"}, Layout{.name = "1f1b", .pipeline = 4},
        Layout{.name = "zb-v", .pipeline = 2, .schedule = "zb-v"},
        Layout{.name = "many", .tensor = 2, .data = 2, .pipeline = 2, .chunks = 2}}) {
    TrainConfig c = config(layout);
    pretrain(c);
    resolve(c, true);
    expect_passes_of(step_programs(c).training.begin()->second.schedule, read(c));
    EXPECT_EQ(svg(layout).find("<svg"), svg(layout).find('<')) << layout.name;
    EXPECT_NE(svg(layout).find("measured"), std::string::npos) << layout.name;
  }
}

// The last program is drawn: there are programs of one and of two iterations.
TEST_F(StepTraceTest, IsOfTheLastSteps) {
  const Layout layout{.name = "pipedream", .pipeline = 2, .schedule = "pipedream"};
  TrainConfig c = with_flags(config(layout), "--untie-embeddings-and-output-weights --clip-grad 0");
  for (const auto& [iterations, last] : {std::pair{3, 1}, std::pair{6, 2}}) {
    c.run.train_iters = iterations;
    set_flags(c, "--pipeline-drain-interval 2 --eval-interval 3 --eval-iters 1");
    pretrain(c);
    TrainConfig run = c;
    resolve(run, true);
    const StepPrograms programs = step_programs(run);
    EXPECT_EQ(programs.training.size(), 2U);
    expect_passes_of(programs.training.at({last, 8}).schedule, read(run));
  }
}

// A run that has nothing left to train has nothing to draw.
TEST_F(StepTraceTest, NothingIsWrittenOfNothing) {
  const Layout layout{.name = "done", .pipeline = 2};
  TrainConfig c = config(layout);
  c.run.save = path("save");
  c.run.save_interval = 3;
  pretrain(c);
  std::filesystem::remove(c.run.trace);
  c.run.load = c.run.save;
  pretrain(c);
  EXPECT_FALSE(std::filesystem::exists(c.run.trace));
}

}  // namespace
}  // namespace phalanx
