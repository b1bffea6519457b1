#pragma once
// What is known of a run from its save directory: metrics.jsonl, and events.jsonl where there is
// one. Nothing but one of the two is required.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/report/report_metrics.h"

namespace phalanx {

struct ReportEvent {
  std::string time;    // ISO 8601
  double seconds = 0;  // the same since 1970
  std::string event;   // "begin", "save", ...
  std::int64_t iteration = 0;
  std::string text;
};

// A start of the run, to its end or to the next start.
struct ReportStart {
  nlohmann::ordered_json begin;                    // the whole line
  std::optional<nlohmann::ordered_json> end = {};  // null where there was none
  double begin_seconds = 0;
  double last_seconds = 0;  // of the last event of this start
};

struct ReportRun {
  std::filesystem::path directory;
  std::string name;  // of the directory, made different from those of other runs
  bool has_metrics = false;
  bool has_events = false;
  ReportMetrics metrics;
  std::vector<ReportEvent> events;  // of this run, in order; some thousand at most
  std::int64_t events_left_out = 0;
  std::int64_t unusable_events = 0;  // lines
  std::vector<ReportStart> starts;

  // The last start's facts; an empty object where there are none.
  const nlohmann::ordered_json& facts() const;
  // The last end's; null where the last start has none.
  const nlohmann::ordered_json* ending() const;
};

// InputMissingError where there is no such directory, or neither file in it; IoError.
ReportRun read_run(const std::filesystem::path& directory);
// Several, with names that differ. UsageError where two are the same directory.
std::vector<ReportRun> read_runs(const std::vector<std::filesystem::path>& directories);

// What people call a loss, "lm_loss" or "lm_loss wiki": as the runs say it, where all of them say
// the same.
std::string title_of(std::span<const ReportRun> runs, const std::string& name);

// Numbers and texts of JSON that somebody may have edited: nothing where they are missing or of
// another type.
std::optional<double> number_at(const nlohmann::ordered_json& json, std::string_view pointer);
std::string text_at(const nlohmann::ordered_json& json, std::string_view pointer);
// A list or an object: an empty one where it is not there.
const nlohmann::ordered_json& part_at(const nlohmann::ordered_json& json, std::string_view pointer);

}  // namespace phalanx
