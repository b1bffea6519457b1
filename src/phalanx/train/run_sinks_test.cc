// No sink changes a bit of what is trained, even if it fails.

#include "phalanx/train/run_sinks.h"

#include <gmock/gmock.h>

#include <fstream>
#include <memory>
#include <stdexcept>

#include "phalanx/metrics/metrics_file.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// Fails at one of the calls.
class FailingSink final : public RunSink {
 public:
  FailingSink(std::string call, int& calls) : call_(std::move(call)), calls_(calls) {}

  std::string name() const override { return "what fails"; }
  void begin(const RunBegin&) override { fail_at("begin"); }
  void iteration(const IterationReport&) override { fail_at("iteration"); }
  void evaluation(const EvaluationReport&) override { fail_at("evaluation"); }
  void note(const RunNote&) override { fail_at("note"); }
  void end(const RunEnding&) override { fail_at("end"); }

 private:
  void fail_at(const std::string& call) {
    if (call != call_) return;
    ++calls_;
    throw std::runtime_error("no " + call);
  }

  std::string call_;
  int& calls_;
};

class RunSinksTest : public RunTest {
 protected:
  // A small run on two stages, with all sinks there are.
  TrainConfig config(const std::string& save) const {
    TrainConfig c = with_layout(RunTest::config(save), {.name = "p2", .pipeline = 2});
    c.run.tensorboard_dir = path(save + "-tensorboard");
    return c;
  }
  void expect_as_alone(const std::string& save) const {
    EXPECT_TRUE(equal(save, "alone")) << to_text(difference(save, "alone"));
  }
};

TEST_F(RunSinksTest, OneThatFailsAtAnyCallChangesNoBit) {
  train(config("alone"));
  for (const std::string call : {"begin", "iteration", "evaluation", "note", "end"}) {
    const TrainConfig c = config(call);
    int calls = 0;
    RunSinks sinks;
    sinks.add(std::make_unique<FailingSink>(call, calls));
    sinks.add(std::make_unique<MetricsSink>(fs::path(c.run.save) / kMetricsName));
    EXPECT_EQ(pretrain(c, nullptr, sinks), RunEnd::kFinished);
    EXPECT_EQ(calls, 1) << call;
    expect_as_alone(call);
    EXPECT_EQ(losses(call), losses("alone"));
  }
}

// For each default sink in turn a directory lies in place of its file, or a file in place of its
// directory.
TEST_F(RunSinksTest, DefaultOnesThatCannotWriteChangeNoBit) {
  train(config("alone"));
  for (const std::string file : {"metrics.jsonl", "events.jsonl", "report.html"}) {
    const TrainConfig c = config(file);
    fs::create_directories(fs::path(c.run.save) / file / "in the way");
    testing::internal::CaptureStderr();
    train(c);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr(file)) << file;
    expect_as_alone(file);
  }
  const TrainConfig c = config("blocked");
  std::ofstream(c.run.tensorboard_dir) << "in the way";
  testing::internal::CaptureStderr();
  train(c);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("the run goes on without"));
  expect_as_alone("blocked");
}

}  // namespace
}  // namespace phalanx
