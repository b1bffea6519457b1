#pragma once
// A run as its save directory shows it, by metrics.jsonl and events.jsonl. One of the two is
// enough.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/report/metrics_reader.h"

namespace phalanx {

struct ReportEvent {
  std::string time;    // ISO 8601
  double seconds = 0;  // the same since 1970
  std::string event;   // "begin", "save", ...
  std::int64_t iteration = 0;
  std::string text;
  // Of "save": the iterations that were done when it ended, how long it took, how much it wrote; 0:
  // not known.
  double until = 0;
  double took = 0;  // seconds
  double bytes = 0;
};

// One start of the run, until its end or the next start.
struct ReportStart {
  nlohmann::ordered_json begin;                    // the whole line
  std::optional<nlohmann::ordered_json> end = {};  // null: the start has none
  double begin_seconds = 0;
  double last_seconds = 0;  // of the last event of this start
};

struct ReportRun {
  std::filesystem::path directory;
  std::string name;  // from the directory's path; differs from those of other runs
  bool has_metrics = false;
  bool has_events = false;
  ReportMetrics metrics;
  std::vector<ReportEvent> events;  // in order; two thousand at most
  std::int64_t events_left_out = 0;
  std::int64_t unusable_events = 0;  // lines
  std::vector<ReportStart> starts;

  // The facts of the last start; an empty object where there are none.
  const nlohmann::ordered_json& facts() const;
  // The end of the last start; null where there is none.
  const nlohmann::ordered_json* ending() const;
};

// InputMissingError where the directory or both of its files are missing; IoError.
ReportRun read_run(const std::filesystem::path& directory);
// Several runs, whose names differ. UsageError where two are the same directory.
std::vector<ReportRun> read_runs(const std::vector<std::filesystem::path>& directories);

// The title of a loss, "lm_loss" or "lm_loss wiki", for people: the one that the runs record if it
// is the same in all of them, else the name in words.
std::string title_of(std::span<const ReportRun> runs, const std::string& name);

// A number or a text of JSON that somebody may have edited: nothing where it is missing or of
// another type.
std::optional<double> number_at(const nlohmann::ordered_json& json, std::string_view pointer);
std::string text_at(const nlohmann::ordered_json& json, std::string_view pointer);
// A list or an object; an empty object where it is missing.
const nlohmann::ordered_json& part_at(const nlohmann::ordered_json& json, std::string_view pointer);

}  // namespace phalanx
