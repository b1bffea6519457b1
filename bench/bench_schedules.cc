// How long pipeline schedules take to be made: generated and verified, which has a limit, and
// simulated and lowered. A big one, and every kind at a size that people have.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx::bench {
namespace {

constexpr double kBigLimitMs = 1000.0;
constexpr double kSmallLimitMs = 5.0;
constexpr int kBigRounds = 5;
constexpr int kSmallRounds = 41;

struct Phases {
  enum Phase { kGenerate, kVerify, kSimulate, kLower, kCount };
  std::array<double, kCount> ms = {};
};

template <typename Work>
double milliseconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  return elapsed.count();
}

Phases run_once(std::string_view kind, const ScheduleRequest& request) {
  Phases phases;
  std::optional<Schedule> schedule;
  phases.ms[Phases::kGenerate] = milliseconds([&] { schedule = make_schedule(kind, request); });
  phases.ms[Phases::kVerify] = milliseconds([&] { verify(*schedule); });
  phases.ms[Phases::kSimulate] = milliseconds([&] { simulate(*schedule, request.costs); });
  phases.ms[Phases::kLower] = milliseconds([&] { lower(*schedule, request.costs); });
  return phases;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Each phase by its own median; the limit is of generating and verifying together.
void measure(std::string_view kind, const ScheduleRequest& request, int rounds, double limit_ms) {
  std::vector<Phases> runs;
  for (int i = 0; i < rounds; ++i) runs.push_back(run_once(kind, request));
  const auto phase = [&](auto value_of) {
    std::vector<double> values;
    for (const Phases& run : runs) values.push_back(value_of(run.ms));
    return median(values);
  };
  const auto of = [&](Phases::Phase which) {
    return phase([which](const auto& ms) { return ms[which]; });
  };
  const double both =
      phase([](const auto& ms) { return ms[Phases::kGenerate] + ms[Phases::kVerify]; });
  fmt::print(
      "{:<15} {:>4} {:>6} {:>3} {:>10.3f} {:>10.3f} {:>10.3f} {:>8.0f} {:>10.3f} {:>10.3f}\n", kind,
      request.ranks, request.microbatches, request.chunks, of(Phases::kGenerate),
      of(Phases::kVerify), both, limit_ms, of(Phases::kSimulate), of(Phases::kLower));
}

void measure_all() {
  fmt::print("medians in ms; v 0: the kind's own\n");
  fmt::print("{:<15} {:>4} {:>6} {:>3} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10}\n", "kind", "p",
             "m", "v", "generate", "verify", "both", "limit", "simulate", "lower");
  measure("interleaved", {.ranks = 64, .microbatches = 1024, .chunks = 8}, kBigRounds, kBigLimitMs);
  for (const ScheduleKind& kind : schedule_kinds()) {
    // A search for the best order takes the time that it is given.
    if (kind.name == "auto") continue;
    measure(kind.name, {.ranks = 8, .microbatches = 32}, kSmallRounds, kSmallLimitMs);
  }
}

}  // namespace
}  // namespace phalanx::bench

int main() {
  try {
    phalanx::bench::measure_all();
    return 0;
  } catch (const phalanx::Error& error) {
    fmt::print(stderr, "bench_schedules: {}\n", error.what());
    return error.exit_status();
  }
}
