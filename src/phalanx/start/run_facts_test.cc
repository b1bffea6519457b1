#include "phalanx/start/run_facts.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "phalanx/base/file.h"
#include "phalanx/metrics/run_events.h"
#include "phalanx/report/report.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunFactsTest : public RunTest {
 protected:
  std::vector<Json> events(const std::string& save) const {
    std::vector<Json> found;
    std::ifstream file(path(save + "/" + std::string(kEventsName)));
    for (std::string line; std::getline(file, line);) found.push_back(Json::parse(line));
    return found;
  }
  static std::vector<std::string> names(const std::vector<Json>& events) {
    std::vector<std::string> found;
    for (const Json& event : events) found.push_back(event.at("event").get<std::string>());
    return found;
  }
  // A pipeline of two ranks, each twice.
  TrainConfig pipeline(const std::string& save) const {
    return with_flags(config(save),
                      "--world-size 4 --pipeline-model-parallel-size 2 --micro-batch-size "
                      "1 --train-iters 2 --save-interval 1 --eval-iters 0 --eval-interval "
                      "0 --lr-decay-iters 8 --lr-warmup-iters 0");
  }
};

TEST_F(RunFactsTest, ARunKeepsWhatItIsAndWhatHappened) {
  TrainConfig c = pipeline("run");
  pretrain(c);
  const auto first = events("run");
  EXPECT_THAT(names(first), ElementsAre("begin", "save", "save", "end"));
  const Json& begin = first.front();
  EXPECT_EQ(begin.at("start"), 1);
  EXPECT_EQ(begin.at("arguments").at("--hidden-size"), "32");
  EXPECT_EQ(begin.at("layout").at("pipeline"), 2);
  EXPECT_EQ(begin.at("layout").at("data"), 2);
  EXPECT_FALSE(begin.at("layout").contains("expert"));
  EXPECT_GT(begin.at("data").at("tokens"), 1000);
  EXPECT_FALSE(begin.at("machine").at("processor").get<std::string>().empty());
  // Each stage has a plan of its own, which data-parallel ranks share.
  ASSERT_EQ(begin.at("memory").size(), 2U);
  EXPECT_EQ(begin.at("memory").at(0).at("ranks"), "0, 1");
  EXPECT_EQ(begin.at("memory").at(1).at("ranks"), "2, 3");
  const Json& bytes = begin.at("memory").at(0).at("bytes");
  EXPECT_EQ(
      bytes.at("total"),
      bytes.at("parameters").get<std::int64_t>() + bytes.at("main_parameters").get<std::int64_t>() +
          bytes.at("gradients").get<std::int64_t>() + bytes.at("optimizer").get<std::int64_t>() +
          bytes.at("saved").get<std::int64_t>() + bytes.at("workspace").get<std::int64_t>() +
          bytes.at("communication").get<std::int64_t>() +
          bytes.at("constants").get<std::int64_t>());
  EXPECT_EQ(begin.at("schedule").at("simulated").size(), 2U);
  const Json& end = first.back();
  EXPECT_EQ(end.at("outcome"), "finished");
  ASSERT_EQ(end.at("timeline").at("measured").size(), 2U);
  EXPECT_EQ(end.at("timeline").at("measured").at(1).size(), 4U);  // two microbatches there and back
  EXPECT_GT(end.at("timeline").at("passes").at(0).at("forward"), 0);
  EXPECT_THAT(read_file(path("run/report.html")), HasSubstr("measured: 1f1b"));

  // The events of the first start stay.
  c.run.load = c.run.save;
  c.run.train_iters = 3;
  pretrain(c);
  const auto both = events("run");
  EXPECT_THAT(names(both), ElementsAre("begin", "save", "save", "end", "begin", "save", "end"));
  EXPECT_EQ(both[4].at("run"), begin.at("run"));
  EXPECT_EQ(both[4].at("start"), 2);
  EXPECT_EQ(both[4].at("iteration"), 2);
}

TEST_F(RunFactsTest, AGridOfExpertsIsNamed) {
  train(with_flags(pipeline("run"),
                   "--num-experts 4 --moe-ffn-hidden-size 16 --expert-model-parallel-size 2"));
  const Json layout = events("run").front().at("layout");
  EXPECT_EQ(layout.at("expert"), 2);
  EXPECT_EQ(layout.at("expert_tensor"), 1);
  EXPECT_EQ(layout.at("expert_data"), 1);
  EXPECT_THAT(read_file(path("run/report.html")), HasSubstr("expert parallel"));
}

// A failing sink does not end the run.
TEST_F(RunFactsTest, WhatCannotBeWrittenChangesNothing) {
  const TrainConfig c = pipeline("run");
  for (const std::string_view name : {kReportName, kEventsName}) {
    std::filesystem::create_directories(path("run/" + std::string(name) + "/x"));
  }
  testing::internal::CaptureStderr();
  pretrain(c);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the run goes on without events.jsonl"));
  EXPECT_THAT(said, HasSubstr("the run goes on without report.html"));
  EXPECT_EQ(losses("run").size(), 2U);
}

}  // namespace
}  // namespace phalanx
