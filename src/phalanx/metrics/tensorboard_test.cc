#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/metrics/tensorboard_sink.h"
#include "phalanx/metrics/tensorboard_test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using test::event_files;
using test::read_events;
using test::TensorBoardEvent;

class TensorBoard : public testing::Test {
 protected:
  const fs::path& directory() const { return directory_; }
  std::vector<TensorBoardEvent> events() const {
    const auto files = event_files(directory_);
    EXPECT_EQ(files.size(), 1U);
    return read_events(files.at(0));
  }
  // "tag@step=value" of every scalar.
  std::vector<std::string> scalars() const {
    std::vector<std::string> found;
    for (const TensorBoardEvent& event : events()) {
      if (event.tag.empty() || !event.text.empty()) continue;
      std::ostringstream text;
      text << event.tag << "@" << event.step << "=" << event.value;
      found.push_back(text.str());
    }
    return found;
  }

 private:
  const TemporaryDirectory temporary_{"tensorboard"};
  const fs::path directory_ = temporary_.path() / "events";
};

TensorBoardFile::Clock::time_point seconds(std::int64_t count) {
  return TensorBoardFile::Clock::time_point(std::chrono::seconds(count));
}

IterationReport example(std::int64_t iteration) {
  IterationReport report;
  report.iteration = iteration;
  report.consumed_samples = 8 * iteration;
  report.global_batch_size = 8;
  report.model_flops = 1e12;
  report.losses = {{"lm loss", 2.5}};
  report.learning_rate = 0.25;
  report.loss_scale = 1024;
  report.grad_norm = 1.5;
  report.seconds = 0.5;
  report.peak_bytes = 4096;
  report.rss_bytes = 8192;
  return report;
}

TEST_F(TensorBoard, FileHasItsNameAndItsVersion) {
  TensorBoardFile file(directory() / "deep", 10, [] { return seconds(1719925323); });
  EXPECT_THAT(file.path().filename().string(),
              testing::MatchesRegex("events.out.tfevents.1719925323..*." +
                                    std::to_string(::getpid()) + ".0"));
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1719925323.0);
  // Another file of the same second.
  const TensorBoardFile second(directory() / "deep", 10, [] { return seconds(1719925323); });
  EXPECT_TRUE(second.path().filename().string().ends_with(".1"));
}

TEST_F(TensorBoard, EventsReadBack) {
  TensorBoardFile file(directory(), 1000);
  file.restart(7);
  file.scalar("lm loss", 0.125, 3);
  file.scalar("nan", std::numeric_limits<double>::quiet_NaN(), 1LL << 40);
  const std::string long_text(1000, 'x');
  file.text("num_layers", long_text, 5);
  file.flush();
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 5U);
  EXPECT_TRUE(events[1].restarts);
  EXPECT_EQ(events[1].step, 7);
  EXPECT_EQ(events[2].tag, "lm loss");
  EXPECT_EQ(events[2].value, 0.125F);
  EXPECT_EQ(events[2].step, 3);
  EXPECT_TRUE(std::isnan(events[3].value));
  EXPECT_EQ(events[3].step, 1LL << 40);
  EXPECT_EQ(events[4].tag, "num_layers/text_summary");
  EXPECT_EQ(events[4].text, long_text);
}

TEST_F(TensorBoard, FlushesAFullQueueAndAnOldOne) {
  std::int64_t now = 1000;
  TensorBoardFile file(directory(), 3, [&now] { return seconds(now); });
  const auto written = [&] { return read_events(file.path()).size() - 1; };
  file.scalar("a", 1, 1);
  file.scalar("a", 1, 2);
  EXPECT_EQ(written(), 0U);
  file.scalar("a", 1, 3);
  EXPECT_EQ(written(), 3U);
  file.scalar("a", 1, 4);
  now += 121;
  file.scalar("a", 1, 5);
  EXPECT_EQ(written(), 5U);
}

TEST_F(TensorBoard, WhatCannotBeWrittenSaysSo) {
  TensorBoardFile file(directory(), 1);
  fs::remove_all(directory());
  EXPECT_THROW(file.scalar("a", 1, 1), OutputError);
  EXPECT_THROW(TensorBoardFile("/proc/nowhere", 1), OutputError);
}

TEST_F(TensorBoard, TagsAreMegatrons) {
  TensorBoardSink sink({.directory = directory()});
  sink.begin({});
  sink.iteration(example(3));
  sink.end({});
  EXPECT_THAT(scalars(),
              testing::ElementsAre("learning-rate@3=0.25", "learning-rate vs samples@24=0.25",
                                   "lm loss@3=2.5", "lm loss vs samples@24=2.5",
                                   "loss-scale@3=1024", "loss-scale vs samples@24=1024",
                                   "grad-norm@3=1.5", "grad-norm vs samples@24=1.5"));
}

TEST_F(TensorBoard, SaysHowBusyExpertsAre) {
  TensorBoardSink sink({.directory = directory(), .learning_rate = false, .loss_scale = false});
  sink.begin({});
  IterationReport report = example(3);
  report.losses.clear();
  report.expert_loads = ExpertLoads{.worst = 1.5, .mean = 1.25, .dropped = 0.125};
  report.expert_loads->layers = {{.name = "decoder.layers.3",
                                  .most_to_mean = 1.5,
                                  .dropped = 0.125,
                                  .bias = ExpertLoads::Bias{.least = -0.5, .most = 0.25}}};
  sink.iteration(report);
  sink.end({});
  EXPECT_THAT(
      scalars(),
      testing::IsSupersetOf(
          {"expert-load@3=1.5", "expert-load vs samples@24=1.5", "expert-load mean@3=1.25",
           "expert-dropped@3=0.125", "expert-load decoder.layers.3@3=1.5",
           "expert-dropped decoder.layers.3@3=0.125", "expert-bias min decoder.layers.3@3=-0.5",
           "expert-bias max decoder.layers.3@3=0.25"}));
}

TEST_F(TensorBoard, FlagsAddAndTakeAway) {
  TensorBoardSink sink({.directory = directory(),
                        .interval = 2,
                        .timers = true,
                        .throughput = true,
                        .batch_size = true,
                        .memory = true,
                        .world_size = true,
                        .validation_perplexity = true,
                        .learning_rate = false,
                        .loss_scale = false});
  RunBegin begin;
  begin.world_size = 4;
  sink.begin(begin);
  sink.iteration(example(1));
  IterationReport report = example(2);
  report.zeros_in_gradients = 3;
  report.parameters_norm = 12;
  report.is_logged = true;
  report.times = {{"forward-backward", {0.125, 0.5}}, {"optimizer-count-zeros", {0, 0}}};
  sink.iteration(report);
  report = example(4);
  report.skipped = true;
  sink.iteration(report);
  EvaluationReport evaluation{.iteration = 4,
                              .consumed_samples = 32,
                              .split = "valid",
                              .place = {},
                              .losses = {{"lm loss", 0}}};
  sink.evaluation(evaluation);
  evaluation.split = "test";
  sink.evaluation(evaluation);
  EXPECT_THAT(scalars(),
              testing::ElementsAre(
                  "batch-size@2=8", "batch-size vs samples@16=8", "lm loss@2=2.5",
                  "lm loss vs samples@16=2.5", "world-size@2=4", "world-size vs samples@16=4",
                  "grad-norm@2=1.5", "grad-norm vs samples@16=1.5", "num-zeros@2=3",
                  "num-zeros vs samples@16=3", "params-norm@2=12", "params-norm vs samples@16=12",
                  "mem-reserved-bytes@2=8192", "mem-allocated-bytes@2=4096",
                  "mem-max-allocated-bytes@2=4096", "iteration-time@2=0.5", "throughput@2=0.5",
                  "forward-backward-time@2=0.5",
                  // A skipped iteration has no loss and no norm.
                  "batch-size@4=8", "batch-size vs samples@32=8", "world-size@4=4",
                  "world-size vs samples@32=4", "mem-reserved-bytes@4=8192",
                  "mem-allocated-bytes@4=4096", "mem-max-allocated-bytes@4=4096",
                  "lm loss validation@4=0", "lm loss validation vs samples@32=0",
                  "lm loss validation ppl@4=1", "lm loss validation ppl vs samples@32=1",
                  "lm loss test@4=0", "lm loss test vs samples@32=0", "lm loss test ppl@4=1",
                  "lm loss test ppl vs samples@32=1"));
}

TEST_F(TensorBoard, ScoresStandBesideTheLoss) {
  TensorBoardSink sink({.directory = directory()});
  sink.begin({});
  sink.evaluation({.iteration = 4,
                   .consumed_samples = 32,
                   .split = "valid",
                   .set = "dev",
                   .place = {},
                   .losses = {{"lm loss", 0.5, "classification loss"}},
                   .scores = {{"accuracy", 0.75}, {"f1", 0.25, "F1"}}});
  EXPECT_THAT(scalars(),
              testing::ElementsAre(
                  "accuracy validation dev@4=0.75", "accuracy validation dev vs samples@32=0.75",
                  "f1 validation dev@4=0.25", "f1 validation dev vs samples@32=0.25",
                  "lm loss validation dev@4=0.5", "lm loss validation dev vs samples@32=0.5"));
}

TEST_F(TensorBoard, ArgumentsAreTexts) {
  TensorBoardSink sink({.directory = directory()});
  RunBegin begin;
  begin.arguments = {{"--num-layers", "2"}, {"--lr", "0.1"}};
  sink.begin(begin);
  const auto written = events();
  ASSERT_EQ(written.size(), 3U);
  EXPECT_EQ(written[1].tag, "num_layers/text_summary");
  EXPECT_EQ(written[1].text, "2");
  EXPECT_EQ(written[2].tag, "lr/text_summary");
}

TEST_F(TensorBoard, AResumedRunRestartsBehindItsSamples) {
  TensorBoardSink sink({.directory = directory()});
  RunBegin begin;
  begin.iteration = 5;
  begin.consumed_samples = 40;
  sink.begin(begin);
  const auto written = events();
  ASSERT_EQ(written.size(), 2U);
  EXPECT_TRUE(written[1].restarts);
  EXPECT_EQ(written[1].step, 41);
}

TEST_F(TensorBoard, AFinishedRunLeavesNoFile) {
  TensorBoardSink sink({.directory = directory()});
  RunBegin begin;
  begin.is_finished = true;
  sink.begin(begin);
  sink.evaluation({});
  sink.end({});
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(TensorBoard, ADirectoryThatVanishesCostsOneWarning) {
  RunSinks sinks;
  sinks.add(std::make_unique<TensorBoardSink>(
      TensorBoardOptions{.directory = directory(), .queue_size = 1}));
  sinks.begin({});
  fs::remove_all(directory());
  testing::internal::CaptureStderr();
  for (int i = 1; i < 4; ++i) sinks.iteration(example(i));
  sinks.end({});
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string warning = "the run goes on without TensorBoard";
  const auto first = said.find(warning);
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find(warning, first + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace phalanx
