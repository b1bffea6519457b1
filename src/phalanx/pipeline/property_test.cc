// Properties of every schedule: with random kinds, sizes and costs, with lists that are wrong at
// one place, and for all sizes up to a bound.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/message_verifier.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/pipeline/slow_simulator_test_support.h"
#include "phalanx/pipeline/test_support.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

constexpr Transport kTransports[] = {Transport::kRendezvous,     Transport::kBuffered,
                                     Transport::kRankQueue,      Transport::kPeerQueue,
                                     Transport::kDirectionQueue, Transport::kGrouped};

std::string fault_of(const Schedule& schedule) {
  return error_of<ConfigError>([&] { verify(schedule); });
}

// Nothing if the kind has no such schedule.
std::optional<Schedule> made(std::string_view kind, const ScheduleRequest& request) {
  try {
    return make_schedule(kind, request);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// The number of actions of a kind on all ranks.
std::int64_t count(const std::vector<Program>& programs, ActionKind kind) {
  std::int64_t found = 0;
  for (const Program& program : programs) {
    found += std::ranges::count(program.actions, kind, &Action::kind);
  }
  return found;
}

// Every send has one receive on the other rank, and one await after it on its own rank.
void check_messages(const std::vector<Program>& programs) {
  using Message = std::tuple<Payload, int, int>;
  struct Ends {
    int sender = -1, receiver = -1, to = -1, from = -1, awaits = 0;
  };
  std::map<Message, Ends> messages;
  for (int rank = 0; rank < static_cast<int>(programs.size()); ++rank) {
    for (const Action& action : programs[static_cast<std::size_t>(rank)].actions) {
      if (!is_message(action.kind) || action.kind == ActionKind::kHandOver) continue;
      Ends& ends = messages[{action.payload, action.source_stage, action.microbatch}];
      if (action.kind == ActionKind::kSend) {
        ASSERT_EQ(ends.sender, -1) << to_string(action);
        ends.sender = rank;
        ends.to = action.peer;
      } else if (action.kind == ActionKind::kAwaitSend) {
        ASSERT_EQ(ends.sender, rank) << to_string(action);
        ASSERT_EQ(ends.to, action.peer) << to_string(action);
        ++ends.awaits;
      } else {
        ASSERT_EQ(ends.receiver, -1) << to_string(action);
        ends.receiver = rank;
        ends.from = action.peer;
      }
    }
  }
  for (const auto& [message, ends] : messages) {
    ASSERT_EQ(ends.awaits, 1);
    ASSERT_EQ(ends.to, ends.receiver);
    ASSERT_EQ(ends.from, ends.sender);
    ASSERT_NE(ends.sender, ends.receiver);
  }
}

// Awaits are in the order of their sends, after the second pass behind the send or after the last
// one.
void check_awaits(const Program& program) {
  std::vector<std::pair<Action, std::int64_t>> sends;  // with the number of passes before
  std::size_t awaited = 0;
  std::int64_t passes = 0;
  const std::int64_t all = std::ranges::count_if(program.actions, is_pass, &Action::kind);
  for (const Action& action : program.actions) {
    if (is_pass(action.kind)) ++passes;
    if (action.kind == ActionKind::kSend) sends.emplace_back(action, passes);
    if (action.kind != ActionKind::kAwaitSend) continue;
    Action send = sends.at(awaited).first;
    ASSERT_EQ(passes, std::min(sends.at(awaited).second + 2, all));
    send.kind = ActionKind::kAwaitSend;
    ASSERT_EQ(send, action);
    ++awaited;
  }
  ASSERT_EQ(awaited, sends.size());
}

std::vector<Action> without_messages(std::vector<Action> actions) {
  std::erase_if(actions, [](const Action& action) { return is_message(action.kind); });
  return actions;
}

void check_programs(const Schedule& schedule, const Costs& order_costs) {
  const std::vector<Program> programs = lower(schedule, order_costs);
  for (const Transport transport : kTransports) {
    EXPECT_EQ(message_fault(programs, transport), std::nullopt) << static_cast<int>(transport);
  }
  EXPECT_EQ(message_fault(programs, Transport::kBuffered, 1), std::nullopt);
  check_messages(programs);
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    EXPECT_EQ(without_messages(programs[rank].actions), schedule.ranks[rank]);
    check_awaits(programs[rank]);
  }
  const auto costs = costs_of(1.0, 2.0, 0.5, 0.25);
  EXPECT_EQ(makespan_of_programs(programs, schedule, costs),
            simulate(schedule, costs).measures.makespan);
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution(low, high)(engine_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  std::size_t below(std::size_t size) {
    return std::uniform_int_distribution<std::size_t>(0, size - 1)(engine_);
  }

  // Multiples of a quarter, so that sums are exact.
  Costs costs(int stages) {
    const auto cost = [&] { return 0.25 * between(1, 16); };
    Costs costs;
    costs.stages.assign(chance(0.5) ? 1 : static_cast<std::size_t>(stages), {});
    for (StageCosts& stage : costs.stages) stage = {cost(), cost(), cost()};
    if (chance(0.5)) costs.latency = cost();
    return costs;
  }
  std::optional<Schedule> schedule() {
    const auto kinds = schedule_kinds();
    const auto& kind = kinds[below(kinds.size())];
    // A search for the best order takes its time.
    const int size = kind.name == "auto" ? 3 : 8;
    return made(
        kind.name,
        {.ranks = between(1, size), .microbatches = between(1, 3 * size), .chunks = between(0, 4)});
  }

 private:
  std::mt19937 engine_;
};

TEST(Properties, OfRandomSchedules) {
  Random random(7);
  int checked = 0;
  for (int round = 0; round < 1000; ++round) {
    const auto schedule = random.schedule();
    if (!schedule) continue;
    SCOPED_TRACE(testing::Message()
                 << schedule->kind << " p " << schedule->placement.ranks() << " m "
                 << schedule->microbatches << " v " << schedule->placement.chunks());
    ASSERT_EQ(fault_of(*schedule), "no error");
    const Costs costs = random.costs(schedule->placement.stages());
    const Simulation simulation = simulate(*schedule, costs);
    ASSERT_EQ(simulation.measures.makespan, SlowSimulator(*schedule, costs).makespan());
    ASSERT_GE(simulation.measures.makespan, simulation.lower_bound.value_or(0.0));
    ASSERT_EQ(simulation.lower_bound.has_value(), schedule->placement.directions() == 1);
    ASSERT_GE(simulation.measures.makespan, simulation.measures.span);
    ASSERT_GE(simulation.measures.span, simulation.measures.ideal);
    // Paired passes whose results come at the end of the pair are never faster.
    ASSERT_GE(simulation.atomic_makespan.value_or(1e9), simulation.measures.makespan);
    check_programs(*schedule, costs);
    if (HasFailure()) return;
    ++checked;
  }
  EXPECT_GT(checked, 300);
}

TEST(Properties, OfForwardPassesAlone) {
  Random random(11);
  for (int round = 0; round < 100; ++round) {
    const int ranks = random.between(1, 8);
    const Placement placement = random.chance(0.5)
                                    ? Placement::looped(ranks, random.between(1, 4))
                                    : Placement::wave(ranks, 2 * random.between(1, 2));
    const Schedule schedule = forward_only_schedule(placement, random.between(1, 12));
    ASSERT_EQ(fault_of(schedule), "no error");
    const Costs costs = random.costs(placement.stages());
    const Simulation simulation = simulate(schedule, costs);
    ASSERT_EQ(simulation.measures.makespan, SlowSimulator(schedule, costs).makespan());
    ASSERT_GE(simulation.measures.makespan, simulation.lower_bound);
    check_programs(schedule, costs);
    if (HasFailure()) return;
  }
}

// Lists in which neighbours have been swapped a few times: ranks that the verifier calls stuck are
// stuck, and a list that it accepts runs to its end, with messages under every transport.
TEST(Properties, OfListsInAnotherOrder) {
  Random random(13);
  int stuck = 0;
  int passed = 0;
  for (int round = 0; round < 1200; ++round) {
    auto schedule = random.schedule();
    if (!schedule || schedule->kind == "auto") continue;
    for (std::vector<Action>& list : schedule->ranks) {
      for (Action& action : list) action.paired = false;
    }
    for (int swaps = random.between(1, 6); swaps > 0; --swaps) {
      auto& list = schedule->ranks[random.below(schedule->ranks.size())];
      const std::size_t place = random.below(list.size() - 1);
      std::swap(list[place], list[std::min(list.size() - 1, place + random.below(4))]);
    }
    const std::string fault = fault_of(*schedule);
    SCOPED_TRACE(fault);
    const Costs costs = random.costs(schedule->placement.stages());
    const auto makespan = SlowSimulator(*schedule, costs).makespan();
    if (fault.find("is stuck at") != std::string::npos) {
      ASSERT_EQ(makespan, std::nullopt);
      ++stuck;
    }
    if (fault != "no error") continue;
    ASSERT_EQ(simulate(*schedule, costs).measures.makespan, makespan);
    check_programs(*schedule, costs);
    if (HasFailure()) return;
    ++passed;
  }
  EXPECT_GT(stuck, 20);
  EXPECT_GT(passed, 50);
}

TEST(Properties, EverySizeThatAKindHasIsVerified) {
  std::map<std::string_view, int> verified;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.name == "auto") continue;
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int microbatches = 1; microbatches <= 24; ++microbatches) {
        for (const int chunks : {0, 3, 4}) {
          const auto schedule =
              made(kind.name, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks});
          if (!schedule) continue;
          ++verified[kind.name];
          ASSERT_EQ(fault_of(*schedule), "no error")
              << kind.name << " " << ranks << " " << microbatches << " " << chunks;
        }
      }
    }
    EXPECT_GT(verified[kind.name], 30) << kind.name;
  }
}

// Groups of at least as many microbatches as ranks, also the last, cost no time; others cost time
// or never end.
TEST(Properties, EveryGroupOfInterleavedChunks) {
  std::vector<std::array<int, 4>> deadlocks;
  for (const int v : {2, 3}) {
    for (int p = 2; p <= 6; ++p) {
      for (int m = p; m <= 24; ++m) {
        for (int g = 1; g <= m; ++g) {
          SCOPED_TRACE(testing::Message() << "p " << p << " m " << m << " v " << v << " g " << g);
          const Schedule schedule = make_schedule(
              "interleaved", {.ranks = p, .microbatches = m, .chunks = v, .group_size = g});
          const bool full_speed = g >= p && (m % g == 0 || m % g >= p);
          const std::string fault = fault_of(schedule);
          ASSERT_EQ(SlowSimulator(schedule, {}).makespan().has_value(), fault == "no error");
          if (fault != "no error") {
            ASSERT_FALSE(full_speed) << fault;
            deadlocks.push_back({p, m, v, g});
            continue;
          }
          const double makespan = measures_of(schedule).makespan;
          ASSERT_EQ(makespan == 3.0 * (m * v + p - 1), full_speed) << makespan;
        }
      }
    }
  }
  for (const auto& known : {std::array{3, 3, 2, 1}, {4, 5, 3, 4}, {5, 7, 2, 5}}) {
    EXPECT_THAT(deadlocks, testing::Contains(known));
  }
}

// A microbatch takes a message forward and one backward between stages of different ranks.
int messages_between(const Placement& placement, int microbatches) {
  int ends = 0;
  for (int stage = 1; stage < placement.stages(); ++stage) {
    if (placement.rank(stage - 1) != placement.rank(stage)) ++ends;
  }
  return 2 * ends * microbatches;
}

TEST(Properties, MessagesBetweenRanks) {
  const auto sent = [](const Schedule& schedule) {
    return count(lower(schedule), ActionKind::kSend);
  };
  EXPECT_EQ(sent(schedule_of("1f1b", 4, 8)), 48);
  EXPECT_EQ(sent(schedule_of("interleaved", 4, 8, 2)), 112);
  EXPECT_EQ(sent(schedule_of("zb-v", 4, 8)), 96);
  EXPECT_EQ(sent(schedule_of("hanayo", 4, 8, 4)), 192);
  EXPECT_EQ(sent(schedule_of("chimera", 4, 8)), 48);
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int ranks : {2, 3, 6}) {
      for (const int microbatches : {6, 12}) {
        for (const int chunks : {0, 2, 3, 4}) {
          if (kind.name == "auto" && ranks * microbatches > 12) continue;
          const auto schedule =
              made(kind.name, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks});
          if (!schedule) continue;
          EXPECT_EQ(sent(*schedule), messages_between(schedule->placement, microbatches))
              << kind.name << " " << ranks << " " << microbatches << " " << chunks;
        }
      }
    }
  }
  // A payload that stays on its rank is handed over: at all turns of a wave.
  const auto programs = lower(schedule_of("hanayo", 4, 8, 4));
  EXPECT_EQ(count(programs, ActionKind::kHandOver), 2 * 3 * 8);
}

}  // namespace
}  // namespace phalanx
