#include "phalanx/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/drawing/markup.h"
#include "phalanx/drawing/palette.h"
#include "phalanx/report/charts.h"
#include "phalanx/report/html.h"
#include "phalanx/report/run.h"
#include "phalanx/report/sections.h"
#include "phalanx/report/style.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

struct RunState {
  std::string text;
  std::string_view style;  // "good", "bad" or none
};

RunState state_of(const ReportRun& run) {
  if (run.starts.empty()) return {"what became of it is not recorded", ""};
  const Json* const end = run.ending();
  if (end == nullptr) return {"no end is recorded: it is running, or left no last word", ""};
  const std::string outcome = text_at(*end, "/outcome");
  if (outcome == "finished") return {"finished", "good"};
  if (outcome == "preempted") return {"stopped by a signal, its state saved", ""};
  if (outcome == "stopped") return {"stopped by a signal, nothing saved", "bad"};
  return {"failed: " + text_at(*end, "/text"), "bad"};
}

// The end of the smoothed curve of the first loss, the same value as in its chart.
std::optional<double> final_loss(const ReportRun& run) {
  for (const NamedSeries& loss : run.metrics.losses) {
    if (!loss.series.empty()) return smoothed(loss.series.bins()).back().y;
  }
  return std::nullopt;
}

const Series* first_of(const std::vector<NamedSeries>& all) {
  return all.empty() || all.front().series.empty() ? nullptr : &all.front().series;
}

struct ValidationLosses {
  std::optional<double> last;
  // From a second evaluation of the same iteration, which a run makes at its end on other samples.
  std::optional<double> at_end;
};

// For the first loss of the first validation set.
ValidationLosses validation_losses(const ReportMetrics& metrics) {
  if (metrics.validation.empty()) return {};
  std::vector<double> values;  // of the last iteration
  std::int64_t iteration = 0;
  for (const EvaluationNumbers& evaluation : metrics.evaluations) {
    if (evaluation.split == "test") continue;
    for (const auto& [key, value] : evaluation.numbers) {
      const std::string name = evaluation.set.empty() ? key : key + " " + evaluation.set;
      if (name != metrics.validation.front().name) continue;
      if (iteration != evaluation.iteration) values.clear();
      iteration = evaluation.iteration;
      values.push_back(value);
    }
  }
  if (values.size() < 2) return {metrics.validation.front().series.last(), std::nullopt};
  return {values[values.size() - 2], values.back()};
}

std::string number_text(const std::optional<double>& value, int digits = 4) {
  return value ? short_value(*value, digits) : std::string();
}

// The most important numbers: at the top of a page, and in the rows of a comparison.
NamedTexts summary(const ReportRun& run) {
  const ReportMetrics& metrics = run.metrics;
  NamedTexts facts;
  const auto last = number_at(run.facts(), "/last_iteration");
  facts.emplace_back(
      last ? fmt::format("iterations of {}",
                         format_count(static_cast<std::int64_t>(std::clamp(*last, 0.0, 9e15))))
           : "iterations",
      format_count(metrics.last_iteration));
  facts.emplace_back("training loss, smoothed", number_text(final_loss(run)));
  const auto [validation, at_end] = validation_losses(metrics);
  facts.emplace_back("validation loss", number_text(validation));
  facts.emplace_back("validation loss, at the end", number_text(at_end));
  // Of several sets, the score of the first.
  const auto score_text = [&](std::string_view key) {
    const auto score = std::ranges::find_if(
        metrics.scores, [&](const NamedSeries& one) { return one.name.starts_with(key); });
    const bool is_known = score != metrics.scores.end() && !score->series.empty();
    return is_known ? short_value(score->series.last(), 4) : std::string();
  };
  facts.emplace_back("validation accuracy", score_text("accuracy"));
  facts.emplace_back("validation F1", score_text("f1"));
  const Series* const test = first_of(metrics.test);
  facts.emplace_back("test loss", test ? short_value(test->last(), 4) : "");
  facts.emplace_back("tokens trained on", metrics.tokens > 0 ? short_value(metrics.tokens, 3) : "");
  const Series& speed = metrics[Metric::kTokensPerSecond];
  facts.emplace_back("tokens/s, median", speed.empty() ? "" : short_value(speed.median(), 3));
  const ShareOfPeak share = share_of_peak(run);
  facts.emplace_back("MFU, median",
                     share.series ? percent_text(share.factor * share.series->median()) : "");
  const Series& seconds = metrics[Metric::kSeconds];
  facts.emplace_back("in steps", seconds.empty() ? "" : duration_text(seconds.sum()));
  const Series& memory = metrics[Metric::kResidentBytes];
  facts.emplace_back("resident memory",
                     memory.empty() ? "" : format_bytes(static_cast<std::int64_t>(memory.most())));
  facts.emplace_back("skipped iterations",
                     metrics.skipped > 0 ? fmt::format("{} of {}", format_count(metrics.skipped),
                                                       format_count(metrics.lines))
                                         : "");
  return facts;
}

std::string tiles(const NamedTexts& facts) {
  std::string html;
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    html += fmt::format("<div><b>{}</b><span>{}</span></div>", escape_markup(value),
                        escape_markup(name));
  }
  return fmt::format("<div class=\"tiles\">{}</div>\n", html);
}

// A table with a row for each run.
std::string comparison(std::span<const ReportRun> runs) {
  PageTable table{.headings = {"run"}, .rows = {}, .style = ""};
  std::vector<NamedTexts> all;
  for (const ReportRun& run : runs) all.push_back(summary(run));
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < all.front().size(); ++i) {
    const bool is_known =
        std::ranges::any_of(all, [&](const NamedTexts& facts) { return !facts[i].second.empty(); });
    if (is_known) shown.push_back(i);
  }
  for (const std::size_t i : shown) {
    table.headings.push_back(i == 0 ? "iterations" : all.front()[i].first);
  }
  table.headings.emplace_back(":state");
  for (std::size_t k = 0; k < runs.size(); ++k) {
    std::vector<std::string> row = {runs[k].name};
    for (const std::size_t i : shown) row.push_back(all[k][i].second);
    row.push_back(state_of(runs[k]).text);
    table.rows.push_back(std::move(row));
  }
  return to_html(table);
}

std::string subtitle(const ReportRun& run) {
  const Json& facts = run.facts();
  std::vector<std::string> parts;
  if (const auto count = number_at(facts, "/model/parameters")) {
    parts.push_back(short_value(*count, 3) + " parameters");
  }
  if (const auto ranks = number_at(facts, "/layout/world_size")) {
    parts.push_back(fmt::format("{:g} {}", *ranks, *ranks == 1 ? "rank" : "ranks"));
  }
  if (const std::string host = text_at(facts, "/machine/host"); !host.empty()) {
    parts.push_back("on " + host);
  }
  if (!run.starts.empty()) {
    parts.push_back(readable_time(text_at(facts, "/time")) + " UTC");
    if (run.starts.size() > 1) parts.push_back(fmt::format("{} starts", run.starts.size()));
  }
  parts.push_back(run.directory.string());
  return fmt::format("<p class=\"sub\">{}</p>\n",
                     escape_markup(fmt::format("{}", fmt::join(parts, " · "))));
}

// Says which parts of a run's files could not be used.
std::string faults(const ReportRun& run, bool names_run) {
  const std::string whose = names_run ? run.name + ": " : "";
  std::string html;
  if (!run.has_metrics) {
    html += missing_text(
        whose + "there is no metrics.jsonl: no iteration has ended, or it was moved away.");
  } else if (run.metrics.lines == 0) {
    html += missing_text(whose + "metrics.jsonl holds no iteration yet.");
  }
  const auto left_out = [&](std::int64_t lines, std::string_view file, std::string_view why) {
    if (lines == 0) return;
    html += missing_text(fmt::format("{}{} line{} of {} left out: {}.", whose, format_count(lines),
                                     lines == 1 ? "" : "s", file, why));
  };
  left_out(run.metrics.unusable, "metrics.jsonl", "no metrics, or out of order");
  left_out(run.unusable_events, "events.jsonl", "no events");
  return html;
}

std::string page_of_one(const ReportRun& run, const ReportOptions& options) {
  const RunState state = state_of(run);
  std::string html = fmt::format("<h1>{}</h1>\n<p class=\"state {}\">{}</p>\n",
                                 escape_markup(run.name), state.style, escape_markup(state.text));
  html += subtitle(run) + faults(run, false) + tiles(summary(run));
  const std::span<const ReportRun> runs(&run, 1);
  html += loss_charts(runs) + other_charts(runs) + evaluations_section(run) + answers_section(run);
  html += time_section(run) + timeline_section(run, options.draw_timelines) + memory_section(run);
  return html + events_section(run) + facts_section(run) + arguments_section(run);
}

std::string page_of_several(std::span<const ReportRun> runs) {
  std::string html = fmt::format("<h1>{} runs compared</h1>\n", runs.size());
  for (const ReportRun& run : runs) html += faults(run, true);
  html += comparison(runs) + loss_charts(runs) + other_charts(runs);
  return html + differences_section(runs);
}

}  // namespace

std::string report_page(std::span<const ReportRun> runs, const ReportOptions& options) {
  const bool is_one = runs.size() == 1;
  const std::string title =
      is_one ? runs.front().name : fmt::format("{} runs compared", runs.size());
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{} - Phalanx</title>\n<style>{}{}</style></head>\n<body>\n{}"
      "<footer>Phalanx {} · made {} UTC</footer>\n<script>{}</script>\n</body></html>\n",
      escape_markup(title), kPageColours, kReportStyle,
      is_one ? page_of_one(runs.front(), options) : page_of_several(runs), PHALANX_VERSION,
      readable_time(utc_text(options.now)), kReportScript);
}

std::string report_of(const std::vector<std::filesystem::path>& directories,
                      const ReportOptions& options) {
  return report_page(read_runs(directories), options);
}

void ReportSink::end(const RunEnding& ending) {
  if (ending.save_is_lost) return;
  const std::filesystem::path path = directory_ / kReportName;
  write_file_durably(path, report_of({directory_}, {draw_, std::chrono::system_clock::now()}));
  log_info("> report: {}", path.string());
}

}  // namespace phalanx
