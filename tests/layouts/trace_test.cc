// What a rank does in a step, in its order, is what its program does on the planning machine.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness.h"
#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/families/family.h"
#include "phalanx/nn/unit.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rehearsal/rank_rehearsal.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

std::string describe(const OpRun& run) {
  const OpCost& c = run.cost;
  return fmt::format("{} {} {} {} {} {}x{}x{}", c.name, name_of(c.dtype), c.flops, c.bytes_read,
                     c.bytes_written, c.product.m, c.product.n, c.product.k);
}
std::string describe(const MessageBegun& begun) {
  return fmt::format("{} of {} {} begins: {} to {} bytes, peer {}, key {:#x}, number {}", begun.op,
                     begun.group->name, fmt::join(begun.group->ranks, " "), begun.bytes,
                     begun.result_bytes, begun.peer, begun.key, begun.work);
}
std::string describe(const TransferBegun& begun) {
  return fmt::format("{} of {} begins: {} bytes, number {}", begun.op, begun.place, begun.bytes,
                     begun.work);
}
std::string describe(const Awaited& awaited) { return fmt::format("awaits {}", awaited.work); }

std::vector<std::string> lines_of(const Trace& trace) {
  std::vector<std::string> lines;
  for (const TraceEvent& event : trace) {
    lines.push_back(std::visit([](const auto& one) { return describe(one); }, event));
  }
  return lines;
}

class NobodyListens final : public StateObserver {
  void begins(StateMove /*move*/, int /*number*/) override {}
  void is_done(StateMove /*move*/, int /*number*/) override {}
  void frees_weights(int /*group*/) override {}
  void update_begins() override {}
  void update_ends() override {}
};

Trace planned_trace(const TrainConfig& config, int number) {
  const auto model = make_model(config, kVocabulary);
  const ParallelGrids grids = parallel_grids(config.layout);
  const auto world = make_meta_world(number, grids.world_size());
  const RankCommunicators ranks(grids, *world);
  RankArenas arenas = RankArenas::planning();
  const DeviceChoice kernels{cpu::ProductPrecision::kFp32};
  const auto backend = kernels.make_planning_backend(1);
  const StepPrograms programs = step_programs(config);
  Rank rank(config, *model, programs, ranks, *backend, arenas);
  NobodyListens observer;
  nn::UnitHooks hooks;
  Recorder recorder;
  play_usual_step(rank, observer, hooks, recorder);
  return recorder.events();
}

// Waits are for what has begun, and for each once.
void expect_waits_in_order(const Trace& trace) {
  std::set<std::uint64_t> begun, awaited;
  for (const TraceEvent& event : trace) {
    if (const auto* message = std::get_if<MessageBegun>(&event)) begun.insert(message->work);
    if (const auto* transfer = std::get_if<TransferBegun>(&event)) begun.insert(transfer->work);
    if (const auto* wait = std::get_if<Awaited>(&event)) {
      EXPECT_TRUE(begun.contains(wait->work)) << wait->work;
      EXPECT_TRUE(awaited.insert(wait->work).second) << wait->work;
    }
  }
}

// How many events lie at most between the begin of a message and the wait for it.
std::size_t longest_way(const Trace& trace, std::string_view group) {
  std::map<std::uint64_t, std::size_t> begun;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (const auto* message = std::get_if<MessageBegun>(&trace[i])) {
      if (message->group->name == group) begun[message->work] = i;
    } else if (const auto* wait = std::get_if<Awaited>(&trace[i])) {
      const auto found = begun.find(wait->work);
      if (found != begun.end()) longest = std::max(longest, i - found->second);
    }
  }
  return longest;
}

// The traces of all ranks.
std::vector<MeasuredStep> expect_planned_traces(const Layout& layout) {
  SCOPED_TRACE(name_of(layout));
  const auto config = legal_config(layout);
  if (!config) {
    ADD_FAILURE() << "no such layout";
    return {};
  }
  TrainingResult result = train(*config, 2);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  for (std::size_t rank = 0; rank < result.measured.size(); ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    const Trace& trace = result.measured[rank].trace;
    const auto real = lines_of(trace);
    const auto planned = lines_of(planned_trace(*config, static_cast<int>(rank)));
    const auto [one, other] = std::ranges::mismatch(real, planned);
    if (one != real.end() || other != planned.end()) {
      ADD_FAILURE() << "event " << one - real.begin() << " of " << real.size() << " is\n  "
                    << (one == real.end() ? "none" : *one) << ", planned among " << planned.size()
                    << " is\n  " << (other == planned.end() ? "none" : *other);
    }
    expect_waits_in_order(trace);
  }
  return std::move(result.measured);
}

TEST(Trace, OfEightRanksIsThePlannedOne) {
  const auto measured = expect_planned_traces({.tensor = 2,
                                               .data = 2,
                                               .pipeline = 2,
                                               .sequence_parallel = true,
                                               .zero = {.stage = 1},
                                               .overlap = Overlap::kReduceAndGather,
                                               .small_buckets = true,
                                               .layers = 4});
  ASSERT_EQ(measured.size(), 8U);
  // Other work goes on while messages are under way.
  for (const char* group : {"tp", "pp", "dp"}) {
    EXPECT_GT(longest_way(measured[0].trace, group), 2U) << group;
  }
}

TEST(Trace, OfSharedWeightsAndFilesIsThePlannedOne) {
  const auto measured = expect_planned_traces({.data = 2,
                                               .zero = {.stage = 3, .prefetch = 2},
                                               .files = Files::kBoth,
                                               .overlap = Overlap::kReduceAndGather,
                                               .recompute = Recompute::kUniform1});
  ASSERT_EQ(measured.size(), 2U);
  EXPECT_FALSE(measured[0].transfers.by_key().empty());
}

// What other layouts exchange.
TEST(Trace, OfOtherLayoutsIsThePlannedOne) {
  expect_planned_traces({.pipeline = 2, .schedule = "interleaved", .chunks = 2, .layers = 5});
  expect_planned_traces({.tensor = 2,
                         .pipeline = 2,
                         .schedule = "zb-v",
                         .chunks = 2,
                         .sequence_parallel = true,
                         .recompute = Recompute::kUniform1,
                         .layers = 4});
  expect_planned_traces({.context = 2, .zero = {.stage = 2}, .overlap = Overlap::kReduce});
  expect_planned_traces({.data = 2,
                         .zero = {.stage = 1},
                         .files = Files::kOptimizer,
                         .recompute = Recompute::kSelective,
                         .family = "t5",
                         .decoder_layers = 2});
  // Where tokens travel to their experts alone, how many do is data: such a trace differs.
  expect_planned_traces({.data = 2, .mean_of_means = true, .experts = 4});
}

}  // namespace
}  // namespace phalanx
