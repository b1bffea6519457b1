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
#include "phalanx/start/run_setup.h"
#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {
namespace {

// A pass as numbers: kind, chunk, microbatch, version, begin, end.
constexpr std::int64_t kNumbersPerPass = 6;
constexpr std::uint64_t kKey = message_key(MessageKind::kOther, 0, 0);

double milliseconds_now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Whether a rank's list has exactly these passes.
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

// How far the peer's clock is ahead of this one, in milliseconds. The shortest of some round trips
// gives the best estimate (Cristian, 1989). The peer calls answer_clock() at the same time.
constexpr int kRoundTrips = 8;
double clock_offset(Communicator& world, int peer, Context& context) {
  Arena arena("clock", 2 * kArenaAlignment);
  const Tensor time = arena.allocate(DType::kF64, {1});
  double offset = 0.0;
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRoundTrips; ++i) {
    const double begin = milliseconds_now();
    world.send(context, time, peer, kKey).wait(context.queue);
    world.receive(context, time, peer, kKey).wait(context.queue);
    const double end = milliseconds_now();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    offset = time.as<double>()[0] - (begin + end) / 2;
  }
  // An offset below the time of one message cannot be told from zero.
  return std::abs(offset) > shortest / 2 ? offset : 0.0;
}
void answer_clock(Communicator& world, Context& context) {
  Arena arena("clock", 2 * kArenaAlignment);
  const Tensor time = arena.allocate(DType::kF64, {1});
  for (int i = 0; i < kRoundTrips; ++i) {
    world.receive(context, time, 0, kKey).wait(context.queue);
    time.as<double>()[0] = milliseconds_now();
    world.send(context, time, 0, kKey).wait(context.queue);
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

std::vector<TimedAction> received(Communicator& world, int peer, Context& context) {
  Arena arena("trace", 2 * kArenaAlignment);
  const Tensor count = arena.allocate(DType::kI64, {1});
  world.receive(context, count, peer, kKey).wait(context.queue);
  const std::int64_t numbers = count.as<std::int64_t>()[0];
  Arena storage("trace", numbers * size_of(DType::kF64) + kArenaAlignment);
  const Tensor all = storage.allocate(DType::kF64, {numbers});
  world.receive(context, all, peer, kKey).wait(context.queue);
  return passes_of(all.span<double>());
}

void send(const std::vector<TimedAction>& passes, Communicator& world, Context& context) {
  const std::vector<double> numbers = numbers_of(passes);
  Arena arena("trace", std::ssize(numbers) * size_of(DType::kF64) + 2 * kArenaAlignment);
  const Tensor count = arena.allocate(DType::kI64, {1});
  count.as<std::int64_t>()[0] = std::ssize(numbers);
  world.send(context, count, 0, kKey).wait(context.queue);
  const Tensor all = arena.allocate(DType::kF64, {std::ssize(numbers)});
  std::ranges::copy(numbers, all.as<double>());
  world.send(context, all, 0, kKey).wait(context.queue);
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
  const bool is_drawn = ranks.coordinates.tensor == 0 && ranks.coordinates.data == 0;
  Communicator& world = *ranks.world;
  if (world.rank() > 0) {
    if (!is_drawn) return std::nullopt;
    answer_clock(world, context);
    send(trace.passes(), world, context);
    return std::nullopt;
  }
  const StepPrograms& programs = setup.programs;
  Timeline timeline = {trace.passes()};
  for (int stage = 1; stage < programs.placement().ranks(); ++stage) {
    const int peer = setup.grid.rank_of({.pipeline = stage});
    const double ahead = clock_offset(world, peer, context);
    if (std::abs(ahead) > 1.0) {
      log_info("> the clock of rank {} is {:+.1f} ms off: its passes are drawn by rank 0's", peer,
               ahead);
    }
    timeline.push_back(received(world, peer, context));
    for (TimedAction& pass : timeline.back()) {
      pass.begin -= ahead;
      pass.end -= ahead;
    }
  }
  if (timeline.front().empty()) return std::nullopt;  // the run was over before it began
  // The program that has these passes ran last.
  for (const auto& [size, pipeline] : programs.training) {
    if (!has_passes(pipeline.schedule.ranks.front(), timeline.front())) continue;
    return MeasuredStep{pipeline.schedule, size.iterations, std::move(timeline)};
  }
  return std::nullopt;
}

}  // namespace phalanx
