#include "phalanx/metrics/log_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

RunBegin example_begin() {
  RunBegin begin;
  begin.lines = {"done with setup ..."};
  begin.last_iteration = 10;
  begin.world_size = 2;
  begin.peak_flops = 1e10;
  begin.arenas = {{0, 1 << 20}, {1, 2 << 20}};
  begin.weight_and_optimizer_bytes = 1 << 19;
  begin.activation_bytes = 1 << 19;
  return begin;
}

IterationReport example(std::int64_t iteration) {
  IterationReport report;
  report.iteration = iteration;
  report.tokens = 100;
  report.model_flops = 2e9;
  report.hardware_flops = 3e9;
  report.learning_rate = 0.5;
  report.seconds = 0.5;
  report.is_logged = true;
  return report;
}

std::string said_by(LogSink& sink, const IterationReport& report) {
  testing::internal::CaptureStderr();
  sink.iteration(report);
  return testing::internal::GetCapturedStderr();
}

TEST(LogSink, SaysHowMuchOfThePeakIsUsed) {
  LogSink sink({});
  sink.begin(example_begin());
  EXPECT_THAT(said_by(sink, example(1)),
              testing::HasSubstr("   200 tokens/s, 4.0 GFLOP/s of 10: MFU 40.0 %, HFU 60.0 %\n"));
}

TEST(LogSink, SaysMemoryOnceAndAtItsInterval) {
  LogSink sink({.memory_interval = 3});
  sink.begin(example_begin());
  const auto memory = testing::HasSubstr("iterations) memory (MB) | allocated: 1.00");
  const auto plan = testing::HasSubstr("Theoretical memory footprints: ");
  IterationReport warming = example(1);
  warming.learning_rate = 0;
  EXPECT_THAT(said_by(sink, warming), testing::Not(memory));
  EXPECT_THAT(said_by(sink, example(2)), testing::AllOf(memory, plan));
  IterationReport quiet = example(3);
  quiet.is_logged = false;
  EXPECT_THAT(said_by(sink, quiet), testing::AllOf(memory, testing::Not(plan)));
  EXPECT_THAT(said_by(sink, example(4)), testing::Not(memory));
}

TEST(LogSink, ShowsTimesBehindTheLine) {
  LogSink sink({.timing_option = "max"});
  sink.begin(example_begin());
  IterationReport report = example(1);
  report.times = {{"optimizer", {0.25, 0.5}}};
  EXPECT_THAT(said_by(sink, report),
              testing::HasSubstr("\nmax time across ranks (ms):\n    optimizer ......"));
}

TEST(LogSink, EndsOfTrainingHaveTheirTime) {
  LogSink sink({});
  testing::internal::CaptureStderr();
  sink.note({.kind = RunNote::Kind::kTrained, .iteration = 1, .text = "after training is done"});
  sink.note({.kind = RunNote::Kind::kSaving, .iteration = 1, .text = "saving"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex(".after training is done. datetime: "
                                    "....-..-.. ..:..:.. \nsaving\n"));
}

}  // namespace
}  // namespace phalanx
