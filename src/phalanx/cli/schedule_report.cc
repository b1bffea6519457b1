#include "phalanx/cli/schedule_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "phalanx/pipeline/schedules/order_cost.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 100;
// A longer list of numbers is printed as its range.
constexpr std::size_t kManyRanks = 16;

// Whole numbers without a point.
Json number(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

// The chunks of a rank as users count them: the two copies of a bidirectional schedule are not
// chunks.
int visible_chunks(const Placement& placement) {
  return placement.directions() > 1 ? 1 : placement.chunks();
}

std::string_view name_of(UpdateRule update) {
  switch (update) {
    case UpdateRule::kFlush:
      return "flush";
    case UpdateRule::kPerMicrobatch:
      return "per-microbatch";
    case UpdateRule::kDoubleBuffered:
      return "double-buffered";
  }
  return "flush";
}

template <typename Counts>
std::size_t count_sends(const ScheduleReport& report, const Counts& counts) {
  std::size_t sends = 0;
  for (const Program& program : report.programs) {
    sends += static_cast<std::size_t>(std::count_if(
        program.actions.begin(), program.actions.end(),
        [&](const Action& action) { return action.kind == ActionKind::kSend && counts(action); }));
  }
  return sends;
}

// The stack of every rank.
Json stacks_of(const Schedule& schedule) {
  Json names = Json::array();
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
    names.push_back(rank < schedule.split ? "encoder" : "decoder");
  }
  return names;
}

Json passes_of(const std::vector<Action>& actions, const Placement& placement) {
  Json names = Json::array();
  for (const Action& action : actions) {
    if (is_pass(action.kind)) names.push_back(pass_name(action, placement));
  }
  return names;
}

Json timeline_of(const std::vector<TimedAction>& row, const Placement& placement) {
  Json list = Json::array();
  for (const TimedAction& timed : row) {
    list.push_back({pass_name(timed.action, placement), number(timed.begin), number(timed.end)});
  }
  return list;
}

std::string action_text(const Action& action, const Placement& placement) {
  return is_pass(action.kind) ? pass_name(action, placement) : to_string(action);
}

std::string by_rank(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least == *most) return fmt::format("{:g} on every rank", *most);
  if (values.size() > kManyRanks) return fmt::format("{:g} to {:g}, by rank", *least, *most);
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(fmt::format("{:g}", value));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string peaks_text(const ScheduleReport& report) {
  std::string at_b = by_rank(report.peak_freed_at_b);
  const std::string at_w = by_rank(report.peak_freed_at_w);
  if (at_b == at_w) return at_b;
  return fmt::format("{} freed at b; {} freed at w", at_b, at_w);
}

std::string bounds_text(const Simulation& simulation) {
  std::string text;
  if (simulation.lower_bound) text += fmt::format("lower bound {:g}; ", *simulation.lower_bound);
  if (simulation.atomic_makespan) {
    text +=
        fmt::format("makespan with pairs as one piece of work {:g}; ", *simulation.atomic_makespan);
  }
  return text;
}

std::string two_stream_text(const ScheduleReport& report) {
  if (report.schedule.split == 0) return "";
  return fmt::format(", {} of them with the encoder's output or its gradient beside the decoder's",
                     two_stream_messages_of(report));
}

std::string sizes_text(const Schedule& schedule) {
  const Placement& placement = schedule.placement;
  const int chunks = visible_chunks(placement);
  std::string text =
      fmt::format("{} ranks, {} microbatches", placement.ranks(), schedule.microbatches);
  if (chunks > 1) text += fmt::format(", {} chunks of every rank", chunks);
  if (schedule.split > 0) {
    text = fmt::format("encoder on {} ranks, decoder on {}, {} microbatches", schedule.split,
                       placement.ranks() - schedule.split, schedule.microbatches);
  }
  return text;
}

// The mean cost; for uneven stages also the cost of each.
Json costs_json(const Costs& costs) {
  StageCosts mean{.forward = 0.0, .backward_input = 0.0, .backward_weight = 0.0};
  Json stages = Json::array();
  const auto count = static_cast<double>(costs.stages.size());
  for (const StageCosts& stage : costs.stages) {
    mean.forward += stage.forward / count;
    mean.backward_input += stage.backward_input / count;
    mean.backward_weight += stage.backward_weight / count;
    stages.push_back({{"f", number(stage.forward)},
                      {"b", number(stage.backward_input)},
                      {"w", number(stage.backward_weight)}});
  }
  Json json = {{"f", number(mean.forward)},
               {"b", number(mean.backward_input)},
               {"w", number(mean.backward_weight)},
               {"latency", number(costs.latency)}};
  if (costs.stages.size() > 1) json["stages"] = std::move(stages);
  return json;
}

// Neighbouring stages with equal costs are printed together.
std::string costs_text(const Costs& costs) {
  std::string text;
  const std::vector<StageCosts>& stages = costs.stages;
  for (std::size_t first = 0; first < stages.size();) {
    std::size_t end = first + 1;
    while (end < stages.size() && stages[end] == stages[first]) ++end;
    if (!text.empty()) text += "; ";
    if (end - first > 1) text += fmt::format("stages {} to {}: ", first, end - 1);
    text += fmt::format("F {:g}, B {:g}, W {:g}", stages[first].forward,
                        stages[first].backward_input, stages[first].backward_weight);
    first = end;
  }
  if (costs.latency > 0.0) text += fmt::format(", latency {:g}", costs.latency);
  return text;
}

}  // namespace

ScheduleReport report_on_schedule(std::string_view kind, const ScheduleRequest& request) {
  Schedule schedule = make_schedule(kind, request);
  verify(schedule, {.activations = request.memory_limit, .kept = kKeptForWeightGradient});
  Simulation simulation = simulate(schedule, request.costs);
  std::vector<double> peak_freed_at_b = peak_activations(schedule, 0.0);
  std::vector<double> peak_freed_at_w = peak_activations(schedule, 1.0);
  std::vector<Program> programs = lower(schedule, request.costs);
  std::optional<std::string> obstacle = training_obstacle(schedule);
  return {.schedule = std::move(schedule),
          .costs = request.costs,
          .simulation = std::move(simulation),
          .peak_freed_at_b = std::move(peak_freed_at_b),
          .peak_freed_at_w = std::move(peak_freed_at_w),
          .programs = std::move(programs),
          .training_obstacle = std::move(obstacle)};
}

std::size_t messages_of(const ScheduleReport& report) {
  return count_sends(report, [](const Action&) { return true; });
}

std::size_t two_stream_messages_of(const ScheduleReport& report) {
  const int split = report.schedule.split;
  if (split == 0) return 0;
  return count_sends(report, [split](const Action& send) {
    return send.source_stage >= split + (send.payload == Payload::kGradient ? 1 : 0);
  });
}

std::string to_json(const ScheduleReport& report, bool with_programs) {
  const Schedule& schedule = report.schedule;
  const Placement& placement = schedule.placement;
  const TimelineMeasures& measures = report.simulation.measures;
  Json document = {{"kind", schedule.kind},
                   {"pipeline_size", placement.ranks()},
                   {"microbatches", schedule.microbatches},
                   {"chunks", visible_chunks(placement)},
                   {"costs", costs_json(report.costs)},
                   {"makespan", number(measures.makespan)},
                   {"span", number(measures.span)},
                   {"ideal", number(measures.ideal)},
                   {"idle_fraction", number(measures.idle_fraction)},
                   {"bubble_over_ideal", number(measures.bubble_over_ideal)},
                   {"span_bubble", number(measures.span_bubble)},
                   {"peak_freed_at_b", numbers(report.peak_freed_at_b)},
                   {"peak_freed_at_w", numbers(report.peak_freed_at_w)},
                   {"lower_bound", number(report.simulation.lower_bound)}};
  if (report.simulation.atomic_makespan) {
    document["atomic_makespan"] = number(*report.simulation.atomic_makespan);
  }
  document["messages"] = messages_of(report);
  if (schedule.split > 0) {
    document["two_stream_messages"] = two_stream_messages_of(report);
    document["split_rank"] = schedule.split;
    document["stacks"] = stacks_of(schedule);
  }
  document["update"] = name_of(schedule.update);
  document["trainable"] = !report.training_obstacle.has_value();
  document["training_obstacle"] =
      report.training_obstacle ? Json(*report.training_obstacle) : Json(nullptr);
  Json ranks = Json::array();
  for (const auto& actions : schedule.ranks) ranks.push_back(passes_of(actions, placement));
  document["ranks"] = std::move(ranks);
  Json timeline = Json::array();
  for (const auto& row : report.simulation.timeline) {
    timeline.push_back(timeline_of(row, placement));
  }
  document["timeline"] = std::move(timeline);
  if (with_programs) {
    Json programs = Json::array();
    for (const Program& program : report.programs) {
      Json names = Json::array();
      for (const Action& action : program.actions) names.push_back(action_text(action, placement));
      programs.push_back(std::move(names));
    }
    document["programs"] = std::move(programs);
  }
  return document.dump() + "\n";
}

std::string measures_text(const ScheduleReport& report) {
  const TimelineMeasures& measures = report.simulation.measures;
  return fmt::format(
      "makespan {:g}, longest span of a rank {:g}, ideal {:g}\n"
      "bubble: {:.2f} % of the time idle; {:.4f} of the ideal; {:.4f} of the span\n"
      "activations held at most: {}\n"
      "{}{} messages{}\n"
      "{}",
      measures.makespan, measures.span, measures.ideal, 100.0 * measures.idle_fraction,
      measures.bubble_over_ideal, measures.span_bubble, peaks_text(report),
      bounds_text(report.simulation), messages_of(report), two_stream_text(report),
      report.training_obstacle ? "cannot be used for training: " + *report.training_obstacle
                               : "can be used for training");
}

std::string check_text(const ScheduleReport& report) {
  std::size_t passes = 0;
  for (const auto& row : report.simulation.timeline) passes += row.size();
  const auto most = std::max_element(report.peak_freed_at_w.begin(), report.peak_freed_at_w.end());
  return fmt::format(
      "{}: {}: {} passes verified, {} messages, at most {:g} activations on a rank, makespan {:g}, "
      "{:.2f} % idle\n",
      report.schedule.kind, sizes_text(report.schedule), passes, messages_of(report), *most,
      report.simulation.measures.makespan, 100.0 * report.simulation.measures.idle_fraction);
}

std::string programs_text(const ScheduleReport& report) {
  std::string text;
  for (std::size_t rank = 0; rank < report.programs.size(); ++rank) {
    text += fmt::format("rank {}:\n", rank);
    std::string line = " ";
    for (const Action& action : report.programs[rank].actions) {
      const std::string word = action_text(action, report.schedule.placement);
      if (line.size() + word.size() + 2 > kLineWidth) {
        text += line + "\n";
        line = " ";
      }
      line += fmt::format(" {},", word);
    }
    line.pop_back();  // the last comma
    text += line + "\n";
  }
  return text;
}

TimelinePicture picture_of(const ScheduleReport& report, bool aligned_to_first) {
  return {.title = fmt::format("{}: {}; {}", report.schedule.kind, sizes_text(report.schedule),
                               costs_text(report.costs)),
          .placement = report.schedule.placement,
          .timeline = report.simulation.timeline,
          .aligned_to_first = aligned_to_first,
          .unit = "",
          .footer = measures_text(report),
          .split = report.schedule.split};
}

std::string kinds_text() {
  std::string text;
  for (const ScheduleKind& kind : schedule_kinds()) {
    text += fmt::format("{:<16} {}\n", kind.name, kind.summary);
  }
  return text;
}

std::string kinds_json() {
  Json kinds = Json::array();
  for (const ScheduleKind& kind : schedule_kinds()) {
    kinds.push_back({{"kind", kind.name},
                     {"summary", kind.summary},
                     {"update", name_of(kind.update)},
                     {"runs_encoder_decoder", kind.split_obstacle.empty()}});
  }
  return Json{{"kinds", std::move(kinds)}}.dump() + "\n";
}

}  // namespace phalanx
