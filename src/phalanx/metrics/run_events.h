#pragma once
// events.jsonl in the save directory: what happened to a run, one JSON object in each line. Every
// start of the run appends, nothing is removed: {"time": "2026-01-31T12:00:00.000Z", "event":
// "begin", "iteration": 100, "text": "..."}. A "begin" also has the run's facts
// (start/run_facts.h), an "end" its outcome and the timeline of its last step. docs/report.md lists
// the events.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/metrics/line_file.h"
#include "phalanx/metrics/run_sink.h"

namespace phalanx {

inline constexpr std::string_view kEventsName = "events.jsonl";  // in the save directory

using EventTime = std::chrono::system_clock::time_point;

// "2026-01-31T12:00:00.000Z".
std::string utc_text(EventTime time);

// Lines without their newlines. Bytes that are not UTF-8 are replaced.
std::string begin_line(const RunBegin& begin, EventTime time);
std::string note_line(const RunNote& note, EventTime time);
std::string end_line(const RunEnding& ending, EventTime time);

// "save", "save_failed", "batch_size", "signal", "exit", "warning"; empty for a note that is not an
// event.
std::string_view event_of(RunNote::Kind kind);
// "finished", "preempted", "stopped", "failed".
std::string_view name_of(RunEnding::Outcome outcome);

// Writes SAVE/events.jsonl.
class EventsSink final : public RunSink {
 public:
  explicit EventsSink(std::filesystem::path path) : path_(std::move(path)) {}

  std::string name() const override { return "events.jsonl"; }
  void begin(const RunBegin& begin) override;
  void note(const RunNote& note) override;
  void end(const RunEnding& ending) override;

 private:
  std::filesystem::path path_;
  std::optional<LineFile> file_;
};

}  // namespace phalanx
