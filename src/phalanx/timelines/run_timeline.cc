#include "phalanx/timelines/run_timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

// A picture of more passes is too large for a page.
constexpr std::size_t kMostPasses = 3000;
constexpr int kMostRanks = 1000;

constexpr std::string_view kLetters = "FBbw";  // by ActionKind

std::size_t passes_of(const Timeline& timeline) {
  std::size_t passes = 0;
  for (const auto& row : timeline) passes += row.size();
  return passes;
}

// Times in milliseconds, rounded to microseconds.
double rounded(double time) { return std::round(time * 1e3) / 1e3; }

Json rows_of(const Timeline& timeline) {
  double origin = std::numeric_limits<double>::infinity();
  for (const auto& row : timeline) {
    if (!row.empty()) origin = std::min(origin, row.front().begin);
  }
  Json rows = Json::array();
  for (const auto& row : timeline) {
    rows.push_back(Json::array());
    for (const TimedAction& timed : row) {
      rows.back().push_back({std::string(1, kLetters[static_cast<std::size_t>(timed.action.kind)]),
                             timed.action.chunk, timed.action.microbatch,
                             rounded(timed.begin - origin), rounded(timed.end - origin)});
    }
  }
  return rows;
}

Json measures_of(const Timeline& timeline) {
  const TimelineMeasures measures = measure(timeline);
  return {{"makespan", rounded(measures.makespan)},
          {"ideal", rounded(measures.ideal)},
          {"idle_fraction", measures.idle_fraction},
          {"bubble_over_ideal", measures.bubble_over_ideal}};
}

Json describe(const Schedule& schedule, const Costs& costs) {
  const Placement& placement = schedule.placement;
  Json json = {{"kind", schedule.kind},        {"shape", name_of(placement.shape())},
               {"ranks", placement.ranks()},   {"chunks", placement.chunks()},
               {"stages", placement.stages()}, {"microbatches", schedule.microbatches}};
  if (schedule.split > 0) json["split"] = schedule.split;
  const Simulation simulation = simulate(schedule, costs);
  json["measures"] = measures_of(simulation.timeline);
  if (passes_of(simulation.timeline) <= kMostPasses)
    json["simulated"] = rows_of(simulation.timeline);
  return json;
}

// How long the passes of a rank took.
Json spent_by(const std::vector<TimedAction>& row) {
  double forward = 0;
  double backward = 0;
  double weight = 0;
  for (const TimedAction& timed : row) {
    const double time = timed.end - timed.begin;
    switch (timed.action.kind) {
      case ActionKind::kForward:
        forward += time;
        break;
      case ActionKind::kBackwardWeight:
        weight += time;
        break;
      default:
        backward += time;
    }
  }
  const double span = row.empty() ? 0.0 : row.back().end - row.front().begin;
  return {{"forward", rounded(forward)},
          {"backward", rounded(backward)},
          {"weight", rounded(weight)},
          {"span", rounded(span)}};
}

[[noreturn]] void refuse(std::string_view what) {
  throw DataError("{} is not as it was written", what);
}

int integer_at(const Json& json, const char* key, int most) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) refuse(key);
  const auto value = found->get<std::int64_t>();
  if (value < 1 || value > most) refuse(key);
  return static_cast<int>(value);
}

Placement placement_of(const Json& json) {
  const int ranks = integer_at(json, "ranks", kMostRanks);
  const int chunks = integer_at(json, "chunks", kMostRanks);
  const std::string shape = json.value("shape", std::string());
  std::optional<Placement> placement;
  if (shape == name_of(Placement::Shape::kContiguous) && chunks == 1) {
    placement = Placement::contiguous(ranks);
  } else if (shape == name_of(Placement::Shape::kLooped)) {
    placement = Placement::looped(ranks, chunks);
  } else if (shape == name_of(Placement::Shape::kWave) && chunks % 2 == 0) {
    placement = Placement::wave(ranks, chunks);
  } else if (shape == name_of(Placement::Shape::kBidirectional) && chunks == 2) {
    placement = Placement::bidirectional(ranks);
  }
  if (!placement) refuse("shape");
  return *placement;
}

TimedAction action_of(const Json& json, const Placement& placement) {
  if (!json.is_array() || json.size() != 5 || !json[0].is_string() ||
      !json[1].is_number_integer() || !json[2].is_number_integer() || !json[3].is_number() ||
      !json[4].is_number()) {
    refuse("a pass");
  }
  const auto letter = json[0].get<std::string>();
  const auto kind = letter.size() == 1 ? kLetters.find(letter[0]) : std::string_view::npos;
  const auto chunk = json[1].get<std::int64_t>();
  const auto microbatch = json[2].get<std::int64_t>();
  const auto begin = json[3].get<double>();
  const auto end = json[4].get<double>();
  if (kind == std::string_view::npos || chunk < 0 || chunk >= placement.chunks() ||
      microbatch < 0 || microbatch > 1'000'000 || begin < 0 || end < begin || end > 1e12) {
    refuse("a pass");
  }
  return {.action = pass(static_cast<ActionKind>(kind), static_cast<int>(chunk),
                         static_cast<int>(microbatch)),
          .begin = begin,
          .end = end};
}

std::optional<Timeline> timeline_at(const Json& json, const char* key, const Placement& placement) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  if (!found->is_array() || std::ssize(*found) != placement.ranks()) refuse(key);
  Timeline timeline;
  for (const Json& row : *found) {
    timeline.emplace_back();
    for (const Json& timed : row) timeline.back().push_back(action_of(timed, placement));
  }
  const std::size_t passes = passes_of(timeline);
  if (passes > kMostPasses) refuse(key);
  return passes > 0 ? std::optional(std::move(timeline)) : std::nullopt;
}

std::string footer_of(const Timeline& timeline, std::string_view unit) {
  const TimelineMeasures measures = measure(timeline);
  return fmt::format("makespan {:.1f}{}, work {:.1f}{}, idle {:.1f} %, bubble / ideal {:.1f} %",
                     measures.makespan, unit, measures.ideal, unit, 100 * measures.idle_fraction,
                     100 * measures.bubble_over_ideal);
}

}  // namespace

Costs measured_costs(const Timeline& timeline, const Placement& placement) {
  struct Mean {
    double sum = 0.0;
    int count = 0;
    void add(double value) {
      sum += value;
      ++count;
    }
    double value() const { return count > 0 ? sum / count : 0.0; }
  };
  struct Means {
    Mean forward, backward, input, weight;
  };
  std::vector<Means> means(static_cast<std::size_t>(placement.stages()));
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    for (const TimedAction& timed : timeline[static_cast<std::size_t>(rank)]) {
      Means& of = means[static_cast<std::size_t>(placement.stage(rank, timed.action.chunk))];
      const double cost = timed.end - timed.begin;
      switch (timed.action.kind) {
        case ActionKind::kForward:
          of.forward.add(cost);
          break;
        case ActionKind::kBackward:
          of.backward.add(cost);
          break;
        case ActionKind::kBackwardInput:
          of.input.add(cost);
          break;
        case ActionKind::kBackwardWeight:
          of.weight.add(cost);
          break;
        default:
          break;
      }
    }
  }
  Costs costs{.stages = {}};
  for (const Means& of : means) {
    // A fused pass is both backward passes: where none is split, each is half of its time.
    const bool split = of.input.count > 0;
    costs.stages.push_back(
        {.forward = of.forward.value(),
         .backward_input = split ? of.input.value() : of.backward.value() / 2,
         .backward_weight = split ? of.weight.value() : of.backward.value() / 2});
  }
  return costs;
}

std::string schedule_json(const Schedule& schedule) { return describe(schedule, Costs{}).dump(); }

std::string timeline_json(const MeasuredStep& step) {
  Json json = describe(step.schedule, measured_costs(step.timeline, step.schedule.placement));
  json["unit"] = "ms";
  json["iterations"] = step.iterations;
  json["measured_measures"] = measures_of(step.timeline);
  Json passes = Json::array();
  for (const auto& row : step.timeline) passes.push_back(spent_by(row));
  json["passes"] = std::move(passes);
  if (passes_of(step.timeline) <= kMostPasses) json["measured"] = rows_of(step.timeline);
  return json.dump();
}

std::string draw_timelines(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse("the timeline");
  const Placement placement = placement_of(json);
  const int split = json.contains("split") ? integer_at(json, "split", placement.ranks() - 1) : 0;
  const bool is_measured = json.contains("measured");
  const std::string unit = is_measured ? "ms" : "";
  const std::string what = fmt::format(
      "{}, {} {}, {} microbatches", json.value("kind", std::string()), placement.ranks(),
      placement.ranks() == 1 ? "rank" : "ranks", integer_at(json, "microbatches", 1'000'000));
  std::vector<TimelinePicture> pictures;
  const auto add = [&](const char* key, std::string_view how) {
    auto timeline = timeline_at(json, key, placement);
    if (!timeline) return;
    std::string footer = footer_of(*timeline, is_measured ? " ms" : "");
    pictures.push_back({.title = fmt::format("{}: {}", how, what),
                        .placement = placement,
                        .timeline = *std::move(timeline),
                        .unit = unit,
                        .footer = std::move(footer),
                        .split = split});
  };
  add("simulated", is_measured ? "simulated with the mean measured times" : "simulated");
  add("measured", "measured");
  return pictures.empty() ? std::string() : to_page_svg(pictures);
}

}  // namespace phalanx
