#include "phalanx/timelines/run_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/start/rank_memory.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

MeasuredStep step_of(std::string_view kind, int ranks, int microbatches) {
  MeasuredStep step{make_schedule(kind, {.ranks = ranks, .microbatches = microbatches}), 1, {}};
  step.timeline = simulate(step.schedule, Costs{}).timeline;
  // The clock began long ago.
  for (auto& row : step.timeline) {
    for (TimedAction& timed : row) {
      timed.begin += 1e6;
      timed.end += 1e6;
    }
  }
  return step;
}

TEST(RunTimeline, EveryKindOfScheduleIsDrawnAgain) {
  for (const std::string_view kind :
       {"1f1b", "interleaved", "zb-h1", "zb-v", "hanayo", "dualpipe"}) {
    const MeasuredStep step = step_of(kind, 4, 8);
    const std::string json = timeline_json(step);
    const std::string svg = draw_timelines(json);
    EXPECT_THAT(svg, HasSubstr("measured: " + std::string(kind))) << kind;
    EXPECT_THAT(svg, HasSubstr("simulated with the mean measured times")) << kind;
    // Each pass is drawn twice, with its name.
    for (const auto& row : step.timeline) {
      for (const TimedAction& timed : row) {
        EXPECT_THAT(svg, HasSubstr(">" + pass_name(timed.action, step.schedule.placement) + ", "));
      }
    }
    EXPECT_THAT(draw_timelines(schedule_json(step.schedule)), HasSubstr(">simulated: "));
  }
}

TEST(RunTimeline, SaysWhatEachRankSpent) {
  MeasuredStep step = step_of("zb-h1", 2, 2);
  step.timeline = {{{pass(ActionKind::kForward, 0, 0), 5, 7},
                    {pass(ActionKind::kBackwardInput, 0, 0), 8, 11},
                    {pass(ActionKind::kBackwardWeight, 0, 0), 11, 11.5}},
                   {{pass(ActionKind::kForward, 0, 0), 6, 7}}};
  const Json json = Json::parse(timeline_json(step));
  EXPECT_EQ(json.at("passes").at(0),
            (Json{{"forward", 2.0}, {"backward", 3.0}, {"weight", 0.5}, {"span", 6.5}}));
  EXPECT_EQ(json.at("measured").at(1).at(0), (Json{"F", 0, 0, 1.0, 2.0}));
}

// The rules of the picture hold only in the picture.
TEST(RunTimeline, ThePictureKeepsItsRulesToItself) {
  const std::string svg = draw_timelines(timeline_json(step_of("1f1b", 2, 2)));
  EXPECT_THAT(svg, HasSubstr("\n.timeline text{"));
  EXPECT_THAT(svg, Not(HasSubstr("\ntext{")));
}

TEST(RunTimeline, AnUnreadableTimelineIsRefused) {
  const Json good = Json::parse(timeline_json(step_of("1f1b", 2, 2)));
  const auto expect_refused = [](const Json& json) {
    EXPECT_THROW(draw_timelines(json.dump()), DataError) << json;
  };
  for (const char* key : {"ranks", "chunks", "shape", "microbatches"}) {
    Json bad = good;
    bad.erase(key);
    expect_refused(bad);
  }
  Json bad = good;
  bad["ranks"] = 1'000'000'000;
  expect_refused(bad);
  for (const Json& pass :
       {Json{"F", 1, 0, 0, 1}, Json{"F", 0, -1, 0, 1}, Json{"X", 0, 0, 0, 1}, Json{"F", 0, 0, 2, 1},
        Json{"F", 0, 0, 0}, Json("F"), Json{"FB", 0, 0, 0, 1}}) {
    bad = good;
    bad["measured"][0][0] = pass;
    expect_refused(bad);
  }
  EXPECT_THROW(draw_timelines("no JSON"), DataError);
}

TEST(RunTimeline, WhatIsTooLongForAPageIsCounted) {
  const std::string json = timeline_json(step_of("1f1b", 8, 400));
  EXPECT_LT(json.size(), 4000U);
  EXPECT_EQ(Json::parse(json).at("passes").size(), 8U);
  EXPECT_EQ(draw_timelines(json), "");
}

TEST(RankMemory, RanksAreListedShortly) {
  EXPECT_EQ(ranks_text(std::vector<int>{0}), "0");
  EXPECT_EQ(ranks_text(std::vector<int>{0, 1}), "0, 1");
  EXPECT_EQ(ranks_text(std::vector<int>{0, 1, 2, 3, 8, 10, 11, 12}), "0-3, 8, 10-12");
}

}  // namespace
}  // namespace phalanx
