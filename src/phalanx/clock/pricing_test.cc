#include "phalanx/clock/pricing.h"

#include <gtest/gtest.h>

#include <memory>

#include "phalanx/clock/collective_cost.h"
#include "phalanx/clock/cost_model.h"

namespace phalanx {
namespace {

// Two ranks of a node for each stage of a pipeline.
Pricing pricing_of(const Machine& machine) {
  return {machine, [](int rank) { return rank / 2; }};
}

TraceEvent begun(std::string group, std::vector<int> ranks, std::string_view op, std::int64_t bytes,
                 int peer = -1) {
  return MessageBegun{
      .group = std::make_shared<MessageGroup>(MessageGroup{std::move(group), std::move(ranks)}),
      .op = op,
      .bytes = bytes,
      .peer = peer,
      .work = 1};
}

TEST(Pricing, ASendIsOfTheClockAndKnowsItsDistance) {
  const Machine machine = machine_of("h100");
  Pricing pricing = pricing_of(machine);
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  const auto seconds = [&](int peer_rank) {
    const std::vector<TraceEvent> events = {begun("pp", {0, peer_rank}, "send", kBytes, 1),
                                            Awaited{1}};
    const ClockAction action = pricing.priced(0, events, ActionKind::kSend);
    EXPECT_TRUE(action.events.empty());
    return action.message.seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(2), message_seconds(machine.cluster, kBytes, true));
  EXPECT_DOUBLE_EQ(seconds(8), message_seconds(machine.cluster, kBytes, false));
}

TEST(Pricing, ATransferTakesTheDiskOfItsNode) {
  const Machine machine = machine_of("h100");
  Pricing pricing = pricing_of(machine);
  const std::vector<TraceEvent> events = {
      TransferBegun{.place = "optimizer", .op = "read", .bytes = 1000, .work = 7}, Awaited{7}};
  EXPECT_EQ(pricing.priced(3, events, ActionKind::kOptimizerStep).events.size(), 1U);
  pricing.price_transfers([](int rank, const TransferBegun& transfer) {
    return rank + static_cast<double>(transfer.bytes);
  });
  const std::vector<ClockEvent> priced =
      pricing.priced(3, events, ActionKind::kOptimizerStep).events;
  ASSERT_EQ(priced.size(), 2U);
  EXPECT_EQ(priced[0].kind, ClockEvent::Kind::kBegin);
  EXPECT_EQ(priced[0].part, TimePart::kDisk);
  EXPECT_EQ(priced[0].cost.link, LinkKind::kDisk);
  EXPECT_DOUBLE_EQ(priced[0].cost.seconds, 1003.0);
  EXPECT_EQ(priced[1].token, priced[0].token);
}

TEST(Pricing, GroupsOfSeveralStagesMeet) {
  const Machine machine = machine_of("h100");
  Pricing pricing = pricing_of(machine);
  const std::vector<TraceEvent> events = {begun("tp", {0, 1}, "all_reduce", 1024), Awaited{1},
                                          begun("mp", {0, 1, 2, 3}, "all_reduce", 4),
                                          begun("embd", {0, 2}, "all_reduce", 1024),
                                          begun("mp", {0, 1, 2, 3}, "all_reduce", 4)};
  const std::vector<ClockEvent> priced =
      pricing.priced(0, events, ActionKind::kOptimizerStep).events;
  ASSERT_EQ(priced.size(), 5U);
  EXPECT_EQ(priced[0].part, TimePart::kTensor);
  EXPECT_EQ(priced[0].meeting, -1);
  EXPECT_EQ(priced[1].kind, ClockEvent::Kind::kAwait);
  EXPECT_EQ(priced[1].token, priced[0].token);
  EXPECT_EQ(priced[2].part, TimePart::kData);
  EXPECT_EQ(priced[2].meeting, priced[4].meeting);
  EXPECT_NE(priced[2].meeting, priced[3].meeting);
  EXPECT_EQ(pricing.meetings(), (Meetings{{0, 1}, {0, 1}}));
}

TEST(Pricing, ExpertsHaveProductsOfTheirOwn) {
  const Machine machine = machine_of("h100");
  const OpCost cost{.name = "grouped_linear_forward",
                    .dtype = DType::kBF16,
                    .product = {.m = 1024, .n = 512, .k = 256, .batch = 1, .m_groups = 8}};
  EXPECT_DOUBLE_EQ(op_seconds(machine.device, cost),
                   product_seconds(machine.device, {128, 512, 256, 8, ProductType::kBF16}));
}

TEST(Pricing, TheStepsOpsAreTheOptimizersAndCostTheHost) {
  const Machine machine = machine_of("h100");
  Pricing pricing = pricing_of(machine);
  const std::vector<TraceEvent> events = {
      OpRun{.cost = {.name = "adam", .bytes_read = 1 << 20, .bytes_written = 1 << 20}}};
  const ClockAction step = pricing.priced(0, events, ActionKind::kOptimizerStep);
  EXPECT_EQ(step.events.front().part, TimePart::kOptimizer);
  EXPECT_DOUBLE_EQ(step.events.front().seconds, memory_seconds(machine.device, 2 << 20));
  EXPECT_DOUBLE_EQ(step.host_seconds, machine.device.host_op.value);
  EXPECT_EQ(pricing.priced(0, events, ActionKind::kForward).events.front().part, TimePart::kMemory);
}

}  // namespace
}  // namespace phalanx
