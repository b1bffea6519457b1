#include "phalanx/report/run.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <deque>
#include <iterator>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/metrics/line_reader.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/metrics/run_events.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostEvents = 1000;  // at the begin, and as many at the end

// 0 for a text that is not a time.
double seconds_of(const std::string& time) {
  std::tm utc{};
  double seconds = 0;
  if (std::sscanf(time.c_str(), "%4d-%2d-%2dT%2d:%2d:%lf", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
                  &utc.tm_hour, &utc.tm_min, &seconds) != 6) {
    return 0;
  }
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  return static_cast<double>(::timegm(&utc)) + seconds;
}

// The words of a text with one blank between each two.
std::string with_single_blanks(std::string_view text) {
  std::string words;
  for (const char letter : text) {
    const bool is_blank = letter == ' ' || letter == '\t' || letter == '\r';
    if (!is_blank) {
      words += letter;
    } else if (!words.empty() && words.back() != ' ') {
      words += ' ';
    }
  }
  if (words.ends_with(' ')) words.pop_back();
  return words;
}

// The text of an event without the table of times that the log has below a saved checkpoint.
std::string event_text(const std::string& text) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = with_single_blanks(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.ends_with("across ranks (ms):")) break;
    if (line.empty()) continue;
    if (!kept.empty()) kept += '\n';
    kept += line;
  }
  return kept;
}

// `number`: which start of the run it is.
std::string begin_text(const Json& begin, std::size_t number) {
  std::string text = event_text(text_at(begin, "/text"));
  if (number > 1) text = fmt::format("start {} of the run, {}", number, text);
  if (const auto restarts = number_at(begin, "/restarts"); restarts && *restarts > 0) {
    text += fmt::format("; attempt {:g} of the job", *restarts + 1);
  }
  return text;
}

class EventsReader {
 public:
  explicit EventsReader(ReportRun& run) : run_(run) {}

  // False where the line is not an event.
  bool read(std::string_view line) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("event") || !json["event"].is_string()) return false;
    const double iteration = number_at(json, "/iteration").value_or(0);
    ReportEvent event{.time = text_at(json, "/time"),
                      .event = text_at(json, "/event"),
                      .iteration = static_cast<std::int64_t>(std::clamp(iteration, 0.0, 9e15)),
                      .text = event_text(text_at(json, "/text")),
                      .until = number_at(json, "/until").value_or(0),
                      .took = number_at(json, "/seconds").value_or(0),
                      .bytes = number_at(json, "/bytes").value_or(0)};
    event.seconds = seconds_of(event.time);
    if (event.event == "begin") {
      begin(json, event);
      event.text = begin_text(run_.starts.back().begin, run_.starts.size());
    }
    if (run_.starts.empty()) return true;  // the begin of this run is lost
    run_.starts.back().last_seconds = event.seconds;
    if (event.event == "end") {
      if (event.text.empty()) event.text = text_at(json, "/outcome");
      run_.starts.back().end = std::move(json);
    }
    keep(std::move(event));
    return true;
  }

  void finish() {
    std::ranges::move(late_, std::back_inserter(run_.events));
    late_.clear();
  }

 private:
  // A directory may have the events of several runs: only those of the last one are kept.
  void begin(Json& json, const ReportEvent& event) {
    const std::string id = text_at(json, "/run");
    if (id != id_) {
      run_.starts.clear();
      run_.events.clear();
      late_.clear();
      run_.events_left_out = 0;
      id_ = id;
    }
    // There may be thousands of earlier starts, and only the last one is drawn.
    if (!run_.starts.empty()) {
      ReportStart& before = run_.starts.back();
      for (const char* key : {"arguments", "memory", "schedule"}) before.begin.erase(key);
      if (before.end) before.end->erase("timeline");
    }
    run_.starts.push_back({.begin = std::move(json), .begin_seconds = event.seconds});
  }

  // Of very many events those in the middle are left out.
  void keep(ReportEvent event) {
    if (run_.events.size() < kMostEvents) {
      run_.events.push_back(std::move(event));
      return;
    }
    late_.push_back(std::move(event));
    if (late_.size() <= kMostEvents) return;
    late_.pop_front();
    ++run_.events_left_out;
  }

  ReportRun& run_;
  std::deque<ReportEvent> late_;
  std::string id_;
};

void read_events(const fs::path& path, ReportRun& run) {
  EventsReader reader(run);
  for_each_line(path, [&](std::string_view line, bool is_whole) {
    if (line.empty() || reader.read(line) || !is_whole) return;
    ++run.unusable_events;
  });
  reader.finish();
}

// Names runs by the ends of their paths, as long as needed for different names: "a/run", "b/run".
void name_apart(std::vector<ReportRun>& runs) {
  std::vector<std::vector<std::string>> parts;
  for (const ReportRun& run : runs) {
    std::error_code error;
    fs::path path = fs::weakly_canonical(run.directory, error);
    if (error) path = run.directory;
    parts.emplace_back();
    for (const auto& part : path) {
      if (!part.empty() && part != "/") parts.back().push_back(part.string());
    }
  }
  const auto end_of = [&](std::size_t i, std::size_t count) {
    const auto& all = parts[i];
    const auto first = all.end() - static_cast<std::ptrdiff_t>(std::min(count, all.size()));
    return fmt::format("{}", fmt::join(first, all.end(), "/"));
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // "checkpoints" is the name of many directories.
    const bool is_named = parts[i].empty() || !parts[i].back().starts_with("checkpoint");
    for (std::size_t count = is_named ? 1 : 2; count <= parts[i].size(); ++count) {
      runs[i].name = end_of(i, count);
      std::size_t alike = 0;
      for (std::size_t k = 0; k < runs.size(); ++k) alike += end_of(k, count) == runs[i].name;
      if (alike == 1) break;
    }
    if (runs[i].name.empty()) runs[i].name = runs[i].directory.string();
  }
}

}  // namespace

const Json& ReportRun::facts() const {
  static const Json nothing = Json::object();
  return starts.empty() ? nothing : starts.back().begin;
}

const Json* ReportRun::ending() const {
  return starts.empty() || !starts.back().end ? nullptr : &*starts.back().end;
}

ReportRun read_run(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw InputMissingError("{}: {}", directory.string(),
                            fs::exists(directory, error)
                                ? "not a directory: name the --save directory of a run"
                                : "no such directory");
  }
  ReportRun run;
  run.directory = directory;
  const fs::path metrics = directory / kMetricsName;
  const fs::path events = directory / kEventsName;
  run.has_metrics = fs::exists(metrics, error);
  run.has_events = fs::exists(events, error);
  if (!run.has_metrics && !run.has_events) {
    throw InputMissingError(
        "{}: there is no {} in it: name the --save directory of a run, which has one from the "
        "first iteration on",
        directory.string(), kMetricsName);
  }
  if (run.has_metrics) run.metrics = read_metrics(metrics);
  if (run.has_events) read_events(events, run);
  return run;
}

std::vector<ReportRun> read_runs(const std::vector<fs::path>& directories) {
  for (std::size_t i = 0; i < directories.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      std::error_code error;
      if (fs::equivalent(directories[i], directories[k], error)) {
        throw UsageError("{} and {} are the same directory: name each run once",
                         directories[k].string(), directories[i].string());
      }
    }
  }
  std::vector<ReportRun> runs;
  runs.reserve(directories.size());
  for (const fs::path& directory : directories) runs.push_back(read_run(directory));
  name_apart(runs);
  return runs;
}

const Json& part_at(const Json& json, std::string_view pointer) {
  static const Json nothing = Json::object();
  const Json::json_pointer place{std::string(pointer)};
  return json.contains(place) ? json.at(place) : nothing;
}

std::string title_of(std::span<const ReportRun> runs, const std::string& name) {
  const std::size_t end = std::min(name.find(' '), name.size());
  const auto said_by = [&](const ReportRun& run) {
    const auto& titles = part_at(run.facts(), "/loss_titles");
    const auto said = titles.find(name.substr(0, end));
    return said != titles.end() && said->is_string() ? said->get<std::string>() : std::string();
  };
  const std::string title = said_by(runs.front());
  const bool is_same =
      std::ranges::all_of(runs, [&](const ReportRun& run) { return said_by(run) == title; });
  if (is_same && !title.empty()) return title + name.substr(end);
  std::string words = name;
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::optional<double> number_at(const Json& json, std::string_view pointer) {
  const Json& part = part_at(json, pointer);
  return part.is_number() ? std::optional(part.get<double>()) : std::nullopt;
}

std::string text_at(const Json& json, std::string_view pointer) {
  const Json& part = part_at(json, pointer);
  return part.is_string() ? part.get<std::string>() : std::string();
}

}  // namespace phalanx
