#include "phalanx/metrics/run_events.h"

#include <fmt/core.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

Json event(std::string_view name, std::int64_t iteration, std::string text, EventTime time) {
  return {{"time", utc_text(time)},
          {"event", name},
          {"iteration", iteration},
          {"text", std::move(text)}};
}

// A path or an argument may have bytes that are not UTF-8.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Adds the members of the JSON object that the text is; nothing if the text is something else.
void add_members(Json& json, const std::string& text) {
  const Json more = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (more.is_object()) json.update(more);
}

}  // namespace

std::string utc_text(EventTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(
      time - std::chrono::system_clock::from_time_t(seconds));
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     part.count());
}

std::string begin_line(const RunBegin& begin, EventTime time) {
  Json json =
      event("begin", begin.iteration,
            fmt::format("from iteration {} to {}", begin.iteration, begin.last_iteration), time);
  json["consumed_samples"] = begin.consumed_samples;
  json["last_iteration"] = begin.last_iteration;
  json["world_size"] = begin.world_size;
  json["peak_flops"] = begin.peak_flops;
  json["instruction_peak_flops"] = begin.instruction_peak_flops;
  add_members(json, begin.facts);
  Json arguments = Json::object();
  for (const auto& [flag, value] : begin.arguments) arguments[flag] = value;
  json["arguments"] = std::move(arguments);
  return line_of(json);
}

std::string note_line(const RunNote& note, EventTime time) {
  Json json =
      event(event_of(note.kind), note.iteration, note.event.empty() ? note.text : note.event, time);
  add_members(json, note.facts);
  return line_of(json);
}

std::string end_line(const RunEnding& ending, EventTime time) {
  Json json = event("end", ending.iteration, ending.error, time);
  json["outcome"] = name_of(ending.outcome);
  add_members(json, ending.facts);
  return line_of(json);
}

std::string_view event_of(RunNote::Kind kind) {
  switch (kind) {
    case RunNote::Kind::kSaving:
      return "";  // what follows from it is an event
    case RunNote::Kind::kSaved:
      return "save";
    case RunNote::Kind::kSaveFailed:
      return "save_failed";
    case RunNote::Kind::kBatchSize:
      return "batch_size";
    case RunNote::Kind::kDisk:
      return "disk";
    case RunNote::Kind::kPrediction:
      return "prediction";
    case RunNote::Kind::kSignal:
      return "signal";
    case RunNote::Kind::kExit:
      return "exit";
    case RunNote::Kind::kWarning:
      return "warning";
    default:
      return "";
  }
}

std::string_view name_of(RunEnding::Outcome outcome) {
  switch (outcome) {
    case RunEnding::Outcome::kFinished:
      return "finished";
    case RunEnding::Outcome::kPreempted:
      return "preempted";
    case RunEnding::Outcome::kStopped:
      return "stopped";
    case RunEnding::Outcome::kFailed:
      break;
  }
  return "failed";
}

// A run that was finished before has no events.
void EventsSink::begin(const RunBegin& begin) {
  if (begin.is_finished) return;
  file_.emplace(path_);
  file_->write(begin_line(begin, std::chrono::system_clock::now()));
}

void EventsSink::note(const RunNote& note) {
  if (file_ && !event_of(note.kind).empty()) {
    file_->write(note_line(note, std::chrono::system_clock::now()));
  }
}

void EventsSink::end(const RunEnding& ending) {
  if (file_) file_->write(end_line(ending, std::chrono::system_clock::now()));
}

}  // namespace phalanx
