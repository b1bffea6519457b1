#include "phalanx/metrics/run_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

std::filesystem::path temporary(const std::string& name) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("run_events_" + name);
  std::filesystem::remove_all(path);
  return path;
}

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(Json::parse(line, nullptr, false));
  return lines;
}

// The log's lines of a checkpoint are Megatron's, with a table of times.
TEST(RunEvents, ANoteMayTellAnotherTextThanTheLog) {
  const RunNote note{RunNote::Kind::kSaved, 3, "  saved\n(min, max) time", "checkpoint saved: x"};
  EXPECT_EQ(nlohmann::json::parse(note_line(note, {})).at("text"), "checkpoint saved: x");
}

TEST(RunEvents, TimesAreUtc) {
  const EventTime time(std::chrono::milliseconds(1'769'860'800'123));
  EXPECT_EQ(utc_text(time), "2026-01-31T12:00:00.123Z");
}

TEST(RunEvents, ABeginHasTheFactsAndWhateverBytesArgumentsHave) {
  RunBegin begin;
  begin.iteration = 5;
  begin.last_iteration = 9;
  begin.arguments = {{"--save", "a\xFF\"\n"}};
  begin.facts = R"({"machine": {"host": "h"}})";
  const Json json = Json::parse(begin_line(begin, {}));
  EXPECT_EQ(json.at("event"), "begin");
  EXPECT_EQ(json.at("iteration"), 5);
  EXPECT_EQ(json.at("machine").at("host"), "h");
  EXPECT_EQ(json.at("arguments").at("--save"), "a\xEF\xBF\xBD\"\n");
  begin.facts = "no JSON";
  EXPECT_EQ(Json::parse(begin_line(begin, {})).at("last_iteration"), 9);
}

TEST(EventsSink, AppendsWhatHappensAndCutsATornLine) {
  const auto path = temporary("appends");
  std::ofstream(path) << R"({"event": "save"})"
                      << "\n"
                      << R"({"eve)";
  EventsSink sink(path);
  sink.begin({});
  sink.note({RunNote::Kind::kBatchSize, 3, "batch"});
  sink.note({RunNote::Kind::kSaving, 3, "saving"});
  sink.note({RunNote::Kind::kSaved, 3, "saved"});
  sink.note({RunNote::Kind::kSaveFailed, 4, "full"});
  sink.note({RunNote::Kind::kSignal, 4, "SIGTERM"});
  sink.note({RunNote::Kind::kExit, 4, "exit"});
  sink.note({RunNote::Kind::kWarning, 4, "warn"});
  sink.note({RunNote::Kind::kDisk, 4, "disk"});
  sink.end({RunEnding::Outcome::kFailed, 4, "why", R"({"timeline": {"kind": "1f1b"}})"});
  const auto lines = lines_of(path);
  std::vector<std::string> events;
  for (const Json& line : lines) {
    events.push_back(line.is_discarded() ? "?" : line.at("event").get<std::string>());
  }
  EXPECT_THAT(events, testing::ElementsAre("save", "begin", "batch_size", "save", "save_failed",
                                           "signal", "exit", "warning", "disk", "end"));
  EXPECT_EQ(lines[2].at("iteration"), 3);
  EXPECT_EQ(lines[2].at("text"), "batch");
  EXPECT_EQ(lines.back().at("outcome"), "failed");
  EXPECT_EQ(lines.back().at("text"), "why");
  EXPECT_EQ(lines.back().at("timeline").at("kind"), "1f1b");
}

TEST(EventsSink, ARunThatWasFinishedLeavesNoTrace) {
  const auto path = temporary("finished");
  EventsSink sink(path);
  RunBegin begin;
  begin.is_finished = true;
  sink.begin(begin);
  sink.note({RunNote::Kind::kExit, 4, "exit"});
  sink.end({});
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(EventsSink, SaysWhereItCannotWrite) {
  const auto path = temporary("folder");
  std::filesystem::create_directories(path);
  EventsSink sink(path);
  EXPECT_THROW(sink.begin({}), OutputError);
}

}  // namespace
}  // namespace phalanx
