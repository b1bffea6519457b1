#include "phalanx/train/step_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <tuple>

#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/rank/gather.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {
namespace {

// A pass as numbers: kind, chunk, microbatch, version, begin, end.
constexpr std::size_t kNumbersPerPass = 6;
constexpr std::uint64_t kKey = message_key(MessageKind::kOther, 0, 0);

double milliseconds_now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Whether these are the passes of a rank's list.
bool has_passes(const std::vector<Action>& actions, const std::vector<TimedAction>& passes) {
  const auto key = [](const Action& a) {
    return std::tuple(a.kind, a.chunk, a.microbatch, a.version);
  };
  auto next = passes.begin();
  for (const Action& action : actions) {
    if (!is_pass(action.kind)) continue;
    if (next == passes.end() || key(next->action) != key(action)) return false;
    ++next;
  }
  return next == passes.end();
}

// How far the peer's clock is ahead of this one, in milliseconds: of some round trips the shortest
// tells best (Cristian, 1989). The peer answers with answer_clock() at the same time.
constexpr int kRoundTrips = 8;
double clock_offset(Communicator& pipeline, int peer, Context& context) {
  const WorkspaceScope scope(context.workspace);
  const Tensor time = context.workspace.allocate(DType::kF64, {1});
  double offset = 0.0;
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRoundTrips; ++i) {
    const double begin = milliseconds_now();
    pipeline.send(context, time, peer, kKey).wait(context.queue);
    pipeline.receive(context, time, peer, kKey).wait(context.queue);
    const double end = milliseconds_now();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    offset = time.as<double>()[0] - (begin + end) / 2;
  }
  // What is less than the way of a message is not known to be anything.
  return std::abs(offset) > shortest / 2 ? offset : 0.0;
}
// By stage.
std::vector<double> clock_offsets(const RunSetup& setup, Communicator& pipeline, Context& context) {
  std::vector<double> ahead = {0.0};
  for (int stage = 1; stage < pipeline.size(); ++stage) {
    ahead.push_back(clock_offset(pipeline, stage, context));
    if (std::abs(ahead.back()) > 1.0) {
      log_info("> the clock of rank {} is {:+.1f} ms off: its passes are drawn by rank 0's",
               setup.grids.dense.rank_of({.pipeline = stage}), ahead.back());
    }
  }
  return ahead;
}
void answer_clock(Communicator& pipeline, Context& context) {
  const WorkspaceScope scope(context.workspace);
  const Tensor time = context.workspace.allocate(DType::kF64, {1});
  for (int i = 0; i < kRoundTrips; ++i) {
    pipeline.receive(context, time, 0, kKey).wait(context.queue);
    time.as<double>()[0] = milliseconds_now();
    pipeline.send(context, time, 0, kKey).wait(context.queue);
  }
}

std::vector<double> numbers_of(const std::vector<TimedAction>& passes) {
  std::vector<double> numbers;
  for (const TimedAction& pass : passes) {
    for (const double number :
         {static_cast<double>(pass.action.kind), static_cast<double>(pass.action.chunk),
          static_cast<double>(pass.action.microbatch), static_cast<double>(pass.action.version),
          pass.begin, pass.end}) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::vector<TimedAction> passes_of(std::span<const double> numbers) {
  std::vector<TimedAction> passes;
  for (std::size_t i = 0; i < numbers.size(); i += kNumbersPerPass) {
    const auto integer = [&](std::size_t k) { return static_cast<int>(numbers[i + k]); };
    passes.push_back(
        {.action = pass(static_cast<ActionKind>(integer(0)), integer(1), integer(2), integer(3)),
         .begin = numbers[i + 4],
         .end = numbers[i + 5]});
  }
  return passes;
}

std::string footer_of(const TimelineMeasures& measures) {
  return fmt::format("makespan {:.1f} ms, work {:.1f} ms, idle {:.1f} %, bubble / ideal {:.1f} %",
                     measures.makespan, measures.ideal, 100 * measures.idle_fraction,
                     100 * measures.bubble_over_ideal);
}

}  // namespace

void write_step_trace(const std::string& path, const MeasuredStep& step) {
  const Schedule& schedule = step.schedule;
  const Timeline& measured = step.timeline;
  const Simulation simulation = simulate(schedule, measured_costs(measured, schedule.placement));
  const std::string what = fmt::format("{}, {} ranks, {} microbatches", schedule.kind,
                                       schedule.placement.ranks(), schedule.microbatches);
  const std::array<TimelinePicture, 2> pictures = {
      {{.title = "simulated with the mean measured costs: " + what,
        .placement = schedule.placement,
        .timeline = simulation.timeline,
        .unit = "ms",
        .footer = footer_of(simulation.measures),
        .split = schedule.split},
       {.title = "measured: " + what,
        .placement = schedule.placement,
        .timeline = measured,
        .unit = "ms",
        .footer = footer_of(measure(measured)),
        .split = schedule.split}}};
  const std::filesystem::path json(path);
  const auto beside = [&](const char* extension) {
    return std::filesystem::path(json).replace_extension(extension);
  };
  write_file_durably(json, to_chrome_trace(pictures, 1e-3));
  write_file_durably(beside(".svg"), to_svg(pictures));
  write_file_durably(beside(".txt"), to_text(pictures[0]) + "\n" + to_text(pictures[1]));
  log_info("timeline of the last steps: {}, .svg and .txt", json.string());
}

void StepTrace::begin(const Action& pass) {
  passes_.push_back({.action = pass, .begin = milliseconds_now(), .end = 0.0});
}

void StepTrace::end(const Action& /*pass*/) { passes_.back().end = milliseconds_now(); }

std::optional<MeasuredStep> gather_step(const RunSetup& setup, const StepTrace& trace,
                                        const RankCommunicators& ranks, Context& context) {
  const bool is_drawn = ranks.coordinates.tensor == 0 && ranks.data_rank() == 0;
  if (!is_drawn) return std::nullopt;
  Communicator* pipeline = ranks.on_host(ranks.pipeline.get());
  std::vector<double> ahead = {0.0};
  std::vector<std::vector<double>> of_stages = {numbers_of(trace.passes())};
  if (pipeline != nullptr) {
    if (pipeline->rank() > 0) {
      answer_clock(*pipeline, context);
    } else {
      ahead = clock_offsets(setup, *pipeline, context);
    }
    of_stages = gather_numbers(*pipeline, context, of_stages.front());
    if (pipeline->rank() > 0) return std::nullopt;
  }
  const StepPrograms& programs = setup.programs;
  Timeline timeline;
  for (std::size_t stage = 0; stage < of_stages.size(); ++stage) {
    timeline.push_back(passes_of(of_stages[stage]));
    for (TimedAction& pass : timeline.back()) {
      pass.begin -= ahead[stage];
      pass.end -= ahead[stage];
    }
  }
  if (timeline.front().empty()) return std::nullopt;  // the run was over before it began
  // The program that ran last is the one whose passes these are.
  for (const auto& [size, program] : programs.training) {
    if (!has_passes(program.schedule.ranks.front(), timeline.front())) continue;
    return MeasuredStep{program.schedule, size.iterations, std::move(timeline)};
  }
  return std::nullopt;
}

}  // namespace phalanx
