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

// Rules, where a step is another software's.
ClockAction priced_with(const PricingRules& rules, const TraceEvent& event, ActionKind kind) {
  const Machine machine = machine_of("h100");
  Pricing pricing(
      machine, [](int rank) { return rank / 2; }, rules);
  return pricing.priced(0, std::vector<TraceEvent>{event, Awaited{1}}, kind);
}

TEST(Pricing, AProductWithAnActivationTakesItsTimeWhereThatWasMeasured) {
  DeviceDescription device = machine_of("h100").device;
  OpCost product{.name = "linear_forward",
                 .bytes_read = 0,
                 .bytes_written = 2 * 512 * 1024,
                 .dtype = DType::kBF16,
                 .product = {.m = 512, .n = 1024, .k = 256, .batch = 1}};
  const double alone = op_seconds(device, product);
  EXPECT_FALSE(activation_of(product));
  product.bytes_written *= 2;
  EXPECT_EQ(activation_of(product)->op, "bias_activation_forward");
  EXPECT_EQ(op_seconds(device, product), alone);
  device.op_rates["bias_activation_forward_bf16"] = measured(1e9, "t");
  EXPECT_NEAR(op_seconds(device, product) - alone, 2 * 2 * 512 * 1024 / 1e9, 1e-12);

  OpCost gradient{.name = "linear_input_gradient",
                  .bytes_read = 2 * (512 * 256 + 256 * 1024),
                  .dtype = DType::kBF16,
                  .product = {.m = 512, .n = 1024, .k = 256, .batch = 1}};
  EXPECT_FALSE(activation_of(gradient));
  gradient.bytes_read += 2 * 512 * 1024;
  EXPECT_EQ(activation_of(gradient)->bytes, 3.0 * 2 * 512 * 1024);
}

TEST(PricingRules, MessagesThatAreNotHiddenAsTheProgramHasThem) {
  const TraceEvent send = begun("pp", {0, 8}, "send", 1 << 30, 1);
  const double own = priced_with({}, send, ActionKind::kSend).message.seconds;
  const ClockAction waits = priced_with({.sends_wait = true}, send, ActionKind::kSend);
  EXPECT_EQ(waits.message.seconds, 0.0);
  ASSERT_EQ(waits.events.size(), 1U);
  EXPECT_EQ(waits.events[0].part, TimePart::kPipeline);
  EXPECT_DOUBLE_EQ(waits.events[0].seconds, own);

  const TraceEvent sum = begun("tp", {0, 1}, "all_reduce", 1 << 30);
  const ClockEvent begin = priced_with({}, sum, ActionKind::kForward).events[0];
  EXPECT_EQ(begin.kind, ClockEvent::Kind::kBegin);
  const ClockEvent part =
      priced_with({.hides_tensor_in_part = true}, sum, ActionKind::kForward).events[0];
  EXPECT_EQ(part.kind, ClockEvent::Kind::kCompute);
  EXPECT_EQ(part.part, TimePart::kTensor);
  EXPECT_DOUBLE_EQ(part.seconds, machine_of("h100").cluster.x_tp.value * begin.cost.seconds);
}

TEST(PricingRules, OpsOfAnotherTypeOrKernel) {
  const OpRun product{.cost = {.name = "linear_forward",
                               .dtype = DType::kBF16,
                               .product = {.m = 8192, .n = 4096, .k = 4096, .batch = 1}}};
  const OpRun attention{.cost = {.name = "attention_forward",
                                 .dtype = DType::kBF16,
                                 .attention = {.batch = 1,
                                               .heads = 32,
                                               .queries = 8192,
                                               .keys = 8192,
                                               .head_size = 128,
                                               .seen = 0.5}}};
  const auto seconds = [](const PricingRules& rules, const OpRun& run) {
    return priced_with(rules, run, ActionKind::kForward).events[0].seconds;
  };
  const DeviceDescription device = machine_of("h100").device;
  const PricingRules in_8_bits = {.products = ProductType::kFP8};
  EXPECT_DOUBLE_EQ(seconds(in_8_bits, product),
                   product_seconds(device, {8192, 4096, 4096, 1, ProductType::kFP8}));
  EXPECT_EQ(seconds({.products = ProductType::kFP8, .head_columns = 8192}, product),
            seconds({}, product));
  EXPECT_EQ(seconds(in_8_bits, attention), seconds({}, attention));
  EXPECT_DOUBLE_EQ(seconds({.attention = 2.0}, attention), 2.0 * seconds({}, attention));
  EXPECT_EQ(seconds({.attention = 2.0}, product), seconds({}, product));
  EXPECT_EQ(priced_with({.host_op = 1e-3}, product, ActionKind::kForward).host_seconds, 1e-3);
}

}  // namespace
}  // namespace phalanx
