#include "phalanx/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <tuple>

#include "phalanx/drawing/line_chart.h"
#include "phalanx/drawing/markup.h"

namespace phalanx {
namespace {

constexpr ChartSize kWide = {920, 320};
constexpr ChartSize kNarrow = {440, 270};
constexpr ChartSize kSmall = {440, 230};
constexpr int kColours = 8;
constexpr std::size_t kMostMarks = 12;

// "F1 dev" for "f1 dev".
std::string score_words(std::string name) {
  for (const auto& [key, word] : {std::pair("accuracy", "Accuracy"), std::pair("f1", "F1")}) {
    if (name.starts_with(key)) name.replace(0, std::string_view(key).size(), word);
  }
  return name;
}

const Series* find(const std::vector<NamedSeries>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &NamedSeries::name);
  return found == all.end() || found->series.empty() ? nullptr : &found->series;
}

// The iterations at which later starts of the run went on.
std::vector<ChartMark> marks_of(std::span<const ReportRun> runs) {
  std::vector<ChartMark> marks;
  if (runs.size() > 1) return marks;
  for (const ReportStart& start : runs.front().starts) {
    const double iteration = number_at(start.begin, "/iteration").value_or(0);
    const bool is_known = !marks.empty() && marks.back().x == iteration;
    if (iteration > 0 && !is_known && marks.size() < kMostMarks) {
      marks.push_back({iteration, "resumed"});
    }
  }
  return marks;
}

// A short curve is not smoothed.
bool is_smoothed(const Series& series) { return series.bins().size() >= 50; }

std::string ended(std::string name, double value) {
  return fmt::format("{} {}", name, short_value(value, 4));
}

// A run's curves of one loss.
void add_loss(LineChart& chart, const ReportRun& run, std::size_t number, const std::string& name,
              bool is_only, std::size_t columns) {
  const int colour = static_cast<int>(number) % kColours;
  if (const Series* loss = find(run.metrics.losses, name)) {
    const auto smooth = smoothed(loss->bins());
    const bool is_long = is_smoothed(*loss);
    if (is_long) {
      chart.curves.push_back({.name = {},
                              .points = outline(thinned(loss->bins(), columns)),
                              .colour = colour,
                              .is_faint = true});
    }
    chart.curves.push_back(
        {.name = is_only ? ended(is_long ? "smoothed" : "training", smooth.back().y) : run.name,
         .points = thinned(smooth, columns),
         .colour = colour});
  }
  const Series* validation = find(run.metrics.validation, name);
  if (validation == nullptr || !is_only) return;
  chart.curves.push_back({.name = ended("validation", validation->last()),
                          .points = means(thinned(validation->bins(), columns / 4)),
                          .colour = 1,
                          .has_marks = validation->count() < 60});
}

std::string loss_chart(std::span<const ReportRun> runs, const std::string& name, bool logarithmic,
                       const ChartSize& size) {
  LineChart chart;
  chart.title = title_of(runs, name);
  chart.logarithmic = logarithmic;
  chart.marks = marks_of(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    add_loss(chart, runs[i], i, name, runs.size() == 1, columns_of(size));
  }
  return to_svg(chart, size);
}

bool has_smoothed(std::span<const ReportRun> runs, const std::string& name) {
  return std::ranges::any_of(runs, [&](const ReportRun& run) {
    const Series* const loss = find(run.metrics.losses, name);
    return loss != nullptr && is_smoothed(*loss);
  });
}

using Lists = std::initializer_list<std::vector<NamedSeries> ReportMetrics::*>;

// Every name once, in the order of appearance.
std::vector<std::string> names_in(std::span<const ReportRun> runs, const Lists& lists) {
  std::vector<std::string> names;
  for (const ReportRun& run : runs) {
    for (const auto list : lists) {
      for (const NamedSeries& one : run.metrics.*list) {
        if (std::ranges::find(names, one.name) == names.end()) names.push_back(one.name);
      }
    }
  }
  return names;
}

std::vector<std::string> loss_names(std::span<const ReportRun> runs) {
  return names_in(runs, {&ReportMetrics::losses, &ReportMetrics::validation});
}

struct Picked {
  const Series* series = nullptr;
  double factor = 1;
};
using Pick = std::function<Picked(const ReportRun&)>;

struct SmallChart {
  std::string title;
  std::string unit = {};
  bool logarithmic = false;
  bool from_zero = false;
  bool has_marks = false;
  bool is_smooth = false;  // a mean over the raw values
  bool only_if_it_changes = false;
  double shown_factor = 1;
  bool has_whole_values = false;
};

std::string small_chart(std::span<const ReportRun> runs, const SmallChart& wanted,
                        const Pick& pick) {
  LineChart chart{.title = wanted.title,
                  .logarithmic = wanted.logarithmic,
                  .from_zero = wanted.from_zero,
                  .shown_factor = wanted.shown_factor,
                  .has_whole_values = wanted.has_whole_values};
  bool changes = false;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Picked picked = pick(runs[i]);
    if (picked.series == nullptr || picked.series->empty()) continue;
    changes = changes || picked.series->least() != picked.series->most();
    const std::size_t columns = columns_of(kSmall);
    const int colour = static_cast<int>(i) % kColours;
    const bool is_faint = wanted.is_smooth && is_smoothed(*picked.series);
    std::vector<ChartPoint> raw = outline(thinned(picked.series->bins(), columns));
    std::vector<ChartPoint> smooth = thinned(smoothed(picked.series->bins()), columns);
    for (auto* points : {&raw, &smooth}) {
      for (ChartPoint& point : *points) point.y *= picked.factor;
    }
    if (!is_faint || runs.size() == 1) {
      chart.curves.push_back({.name = is_faint || runs.size() == 1 ? "" : runs[i].name,
                              .points = std::move(raw),
                              .colour = colour,
                              .is_faint = is_faint,
                              .has_marks = wanted.has_marks && picked.series->count() < 60});
    }
    if (is_faint) {
      chart.curves.push_back({.name = runs.size() == 1 ? "" : runs[i].name,
                              .points = std::move(smooth),
                              .colour = colour});
    }
  }
  if (chart.empty() || (wanted.only_if_it_changes && !changes)) return {};
  return fmt::format(
      "<figure><figcaption>{} <span class=\"unit\">{}</span></figcaption>{}</figure>\n",
      escape_markup(wanted.title), escape_markup(wanted.unit), to_svg(chart, kSmall));
}

Pick metric(Metric which) {
  return [which](const ReportRun& run) { return Picked{&run.metrics[which], 1}; };
}

// Whether values go over several powers of ten, so that a linear axis would show only the greatest.
bool spans_decades(std::span<const ReportRun> runs, Metric which) {
  bool spans = false;
  for (const ReportRun& run : runs) {
    const Series& series = run.metrics[which];
    if (series.empty() || series.least() <= 0) continue;
    spans = spans || series.most() > 20 * series.median() || series.median() > 20 * series.least();
  }
  return spans;
}

// A bar for each save, over the iterations during which it went on, as high as it was fast.
std::string save_bars(std::span<const ReportRun> runs) {
  constexpr std::size_t kMostBars = 200;
  LineChart chart{.title = "Saves", .from_zero = true};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<ChartCurve> bars;
    for (const ReportEvent& event : runs[i].events) {
      if (event.event != "save" || !(event.took > 0) || !(event.bytes > 0)) continue;
      const auto begin = static_cast<double>(event.iteration);
      const double rate = event.bytes / event.took / 1e9;
      bars.push_back({.points = {{begin, rate}, {std::max(begin, event.until), rate}},
                      .colour = static_cast<int>(i) % kColours,
                      .has_marks = true});
    }
    if (bars.size() > kMostBars) bars.erase(bars.begin(), bars.end() - kMostBars);
    if (!bars.empty() && runs.size() > 1) bars.back().name = runs[i].name;
    std::ranges::move(bars, std::back_inserter(chart.curves));
  }
  if (chart.empty()) return {};
  return fmt::format(
      "<figure><figcaption>Saves <span class=\"unit\">GB/s, over the iterations that went on "
      "meanwhile</span></figcaption>{}</figure>\n",
      to_svg(chart, kSmall));
}

}  // namespace

ShareOfPeak share_of_peak(const ReportRun& run) {
  const Series& measured = run.metrics[Metric::kMfu];
  if (!measured.empty()) return {&measured, 1};
  const Series& flops = run.metrics[Metric::kFlopsPerSecond];
  const double peak = number_at(run.facts(), "/peak_flops").value_or(0);
  if (flops.empty() || peak <= 0) return {};
  return {&flops, 1 / peak};
}

std::string loss_charts(std::span<const ReportRun> runs) {
  std::string html;
  int number = 0;
  for (const std::string& name : loss_names(runs)) {
    std::string charts;
    for (const bool logarithmic : {false, true}) {
      charts += fmt::format(
          "<div class=\"{}\"><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></div>\n",
          logarithmic ? "log" : "linear", loss_chart(runs, name, logarithmic, kWide),
          loss_chart(runs, name, logarithmic, kNarrow));
    }
    html += fmt::format(
        "<figure class=\"loss\"><figcaption>{0} <span class=\"unit\">{3}</span></figcaption>"
        "<input type=\"checkbox\" class=\"switch\" id=\"log-{1}\"><label "
        "for=\"log-{1}\">logarithmic</label>\n{2}</figure>\n",
        escape_markup(title_of(runs, name)), number++, charts,
        has_smoothed(runs, name) ? "training: faint as it was, strong smoothed" : "");
  }
  return html;
}

std::string other_charts(std::span<const ReportRun> runs) {
  std::string html;
  if (runs.size() > 1) {
    for (const std::string& name : loss_names(runs)) {
      html += small_chart(runs, {.title = title_of(runs, name) + ", validation", .has_marks = true},
                          [&](const ReportRun& run) {
                            return Picked{find(run.metrics.validation, name), 1};
                          });
    }
  }
  for (const std::string& name : names_in(runs, {&ReportMetrics::scores})) {
    html += small_chart(runs, {.title = score_words(name) + ", validation", .has_marks = true},
                        [&](const ReportRun& run) {
                          return Picked{find(run.metrics.scores, name), 1};
                        });
  }
  html += small_chart(runs, {.title = "Learning rate", .from_zero = true},
                      metric(Metric::kLearningRate));
  html += small_chart(runs,
                      {.title = "Gradient norm",
                       .unit = "before clipping",
                       .logarithmic = spans_decades(runs, Metric::kGradNorm),
                       .from_zero = true,
                       .is_smooth = true},
                      metric(Metric::kGradNorm));
  html += small_chart(
      runs, {.title = "Throughput", .unit = "tokens/s", .from_zero = true, .is_smooth = true},
      metric(Metric::kTokensPerSecond));
  html += small_chart(runs,
                      {.title = "Model FLOPs utilization",
                       .unit = "% of the measured peak",
                       .from_zero = true,
                       .is_smooth = true,
                       .shown_factor = 100},
                      [](const ReportRun& run) {
                        const ShareOfPeak share = share_of_peak(run);
                        return Picked{share.series, share.factor};
                      });
  for (const auto& [which, title, unit] :
       {std::tuple(Metric::kExpertLoad, "Load of experts", "busiest expert over mean, worst layer"),
        std::tuple(Metric::kExpertLoadMean, "Load of experts, mean of layers",
                   "busiest expert over mean")}) {
    html += small_chart(runs, {.title = title, .unit = unit, .is_smooth = true}, metric(which));
  }
  html += small_chart(runs,
                      {.title = "Dropped by experts",
                       .unit = "% of pairs of a token and an expert",
                       .from_zero = true,
                       .is_smooth = true,
                       .only_if_it_changes = true,
                       .shown_factor = 100},
                      metric(Metric::kExpertDropped));
  html +=
      small_chart(runs, {.title = "Loss scale", .logarithmic = true, .only_if_it_changes = true},
                  metric(Metric::kLossScale));
  html += small_chart(runs,
                      {.title = "Global batch size",
                       .unit = "samples",
                       .from_zero = true,
                       .only_if_it_changes = true,
                       .has_whole_values = true},
                      [](const ReportRun& run) {
                        return Picked{&run.metrics.batch_sizes, 1};
                      });
  for (const auto& [which, title] : {std::pair(Metric::kWaitedForData, "Waiting for data"),
                                     std::pair(Metric::kWaitedForMessages, "Waiting for messages"),
                                     std::pair(Metric::kWaitedForFiles, "Waiting for files"),
                                     std::pair(Metric::kSaving, "Saving")}) {
    html += small_chart(runs,
                        {.title = title,
                         .unit = "s in an iteration, first rank",
                         .from_zero = true,
                         .is_smooth = true,
                         .only_if_it_changes = true},
                        metric(which));
  }
  html += save_bars(runs);
  double most_bytes = 0;
  for (const ReportRun& run : runs) {
    most_bytes = std::max(most_bytes, run.metrics[Metric::kResidentBytes].most());
  }
  const bool is_large = most_bytes >= (1 << 30);
  html += small_chart(runs,
                      {.title = "Resident memory",
                       .unit = is_large ? "GiB, first process" : "MiB, first process",
                       .from_zero = true,
                       .only_if_it_changes = true,
                       .shown_factor = 1.0 / (is_large ? 1 << 30 : 1 << 20)},
                      metric(Metric::kResidentBytes));
  return html.empty() ? html : fmt::format("<div class=\"charts\">\n{}</div>\n", html);
}

}  // namespace phalanx
