#include "phalanx/metrics/run_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Story = std::vector<std::string>;

// Records the calls and fails at one of them.
class ToldSink final : public RunSink {
 public:
  ToldSink(Story& story, std::string name, std::string fails_at = {})
      : story_(story), name_(std::move(name)), fails_at_(std::move(fails_at)) {}

  std::string name() const override { return name_; }
  void begin(const RunBegin&) override { told("begin"); }
  void iteration(const IterationReport&) override { told("iteration"); }
  void evaluation(const EvaluationReport&) override { told("evaluation"); }
  void note(const RunNote&) override { told("note"); }
  void end(const RunEnding&) override { told("end"); }
  void pause() override { story_.push_back(name_ + " pauses"); }

 private:
  void told(const std::string& what) {
    if (what == fails_at_) throw OutputError("{} cannot {}", name_, what);
    story_.push_back(name_ + " " + what);
  }

  Story& story_;
  std::string name_;
  std::string fails_at_;
};

void tell_a_run(RunSinks& sinks) {
  sinks.begin({});
  sinks.iteration({});
  sinks.evaluation({});
  sinks.note({});
  sinks.end({});
}

Story without_pauses(Story story) {
  std::erase_if(story, [](const std::string& line) { return line.ends_with("pauses"); });
  return story;
}

TEST(RunSinks, AreToldInTheirOrderAndPauseBeforeLines) {
  Story story;
  RunSinks sinks;
  sinks.add(std::make_unique<ToldSink>(story, "a"));
  sinks.add(std::make_unique<ToldSink>(story, "b"));
  sinks.begin({});
  sinks.iteration({});  // prints nothing
  IterationReport logged;
  logged.is_logged = true;
  sinks.iteration(logged);
  EXPECT_EQ(story, (Story{"a pauses", "b pauses", "a begin", "b begin", "a iteration",
                          "b iteration", "a pauses", "b pauses", "a iteration", "b iteration"}));
}

TEST(RunSinks, OneThatFailsIsNamedAndToldNothingMore) {
  for (const std::string at : {"begin", "iteration", "evaluation", "note", "end"}) {
    Story story;
    RunSinks sinks;
    sinks.add(std::make_unique<ToldSink>(story, "bad", at));
    sinks.add(std::make_unique<ToldSink>(story, "good"));
    testing::internal::CaptureStderr();
    tell_a_run(sinks);
    sinks.iteration({});
    const std::string lines = testing::internal::GetCapturedStderr();
    EXPECT_THAT(lines, testing::HasSubstr("bad cannot " + at + "; the run goes on without bad"));
    story = without_pauses(std::move(story));
    for (const std::string told : {"begin", "iteration", "evaluation", "note", "end"}) {
      if (told == at) break;
      EXPECT_THAT(story, testing::Contains("bad " + told));
    }
    EXPECT_THAT(story, testing::Not(testing::Contains("bad " + at)));
    EXPECT_EQ(std::ranges::count(story, "good iteration"), 2);
    EXPECT_EQ(std::ranges::count(story, "good end"), 1);
  }
}

}  // namespace
}  // namespace phalanx
