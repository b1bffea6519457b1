#include "phalanx/planner/stack_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/clock/pricing.h"
#include "phalanx/planner/step_time.h"
#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

// Two stages of a small model, tensor-parallel over 2, with the flags given.
std::vector<RankTrace> traces_of(const std::string& flags) {
  TrainConfig config = with_flags(
      {},
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "
      "--max-position-embeddings 128 --bf16 --make-vocab-size-divisible-by 1 --micro-batch-size 4 "
      "--global-batch-size 16 --world-size 8 --tensor-model-parallel-size 2 "
      "--pipeline-model-parallel-size 2 " +
          flags);
  resolve(config, false);
  return trace_pipeline(plan_run(config, 1000, {cpu::ProductPrecision::kFp32})).ranks;
}

const std::string kRecompute = "--recompute-granularity full --recompute-method uniform";

// The events of all actions of a kind, in the rank's order.
Trace events_of(const RankTrace& trace, ActionKind kind) {
  Trace all;
  for (std::size_t i = 0; i < trace.actions.size(); ++i) {
    if (trace.actions[i].kind != kind) continue;
    const Trace& events = trace.distinct[trace.numbers[i]];
    all.insert(all.end(), events.begin(), events.end());
  }
  return all;
}

std::int64_t flops_of(const Trace& events, std::string_view op) {
  std::int64_t flops = 0;
  for_each_event<OpRun>(events, [&](const OpRun& run) {
    if (run.cost.name == op) flops += run.cost.product.flops();
  });
  return flops;
}
int count_of(const Trace& events, std::string_view op) {
  int count = 0;
  for_each_event<OpRun>(events, [&](const OpRun& run) { count += run.cost.name == op ? 1 : 0; });
  return count;
}
std::int64_t bytes_of(const Trace& events, TimePart part) {
  std::int64_t bytes = 0;
  for_each_event<MessageBegun>(events, [&](const MessageBegun& message) {
    if (part_of_group(message.group->name) == part) bytes += message.bytes;
  });
  return bytes;
}
// Products between the begins of tensor-parallel messages and the waits for them.
int products_under_messages(const Trace& events) {
  int products = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto* const message = std::get_if<MessageBegun>(&events[i]);
    if (message == nullptr || part_of_group(message->group->name) != TimePart::kTensor) continue;
    for (std::size_t j = i; j < events.size(); ++j) {
      const auto* const awaited = std::get_if<Awaited>(&events[j]);
      if (awaited != nullptr && awaited->work == message->work) break;
      const auto* const run = std::get_if<OpRun>(&events[j]);
      products += run != nullptr && run->cost.product.batch > 0 ? 1 : 0;
    }
  }
  return products;
}

TEST(SoftwareStacks, HaveTheNamesThatAFlagOffers) {
  std::vector<std::string_view> names;
  for (const SoftwareStack& stack : software_stacks()) names.push_back(stack.name);
  EXPECT_EQ(fmt::format("{}", fmt::join(names, " ")), kSoftwareStackNames);
  EXPECT_EQ(software_stack("mds").title, "Megatron-DeepSpeed");
  EXPECT_THROW(software_stack("other"), ConfigError);
}

TEST(StackPrograms, PhalanxsOwnFactsChangeNothingButTheOptimizer) {
  const std::vector<RankTrace> traces = traces_of(kRecompute);
  const RankTrace same = as_done_by({}, traces[0]);
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward, ActionKind::kSend}) {
    const Trace before = events_of(traces[0], kind);
    const Trace after = events_of(same, kind);
    ASSERT_EQ(before.size(), after.size());
    EXPECT_EQ(flops_of(before, "linear_forward"), flops_of(after, "linear_forward"));
    EXPECT_EQ(products_under_messages(before), products_under_messages(after));
  }
}

TEST(StackPrograms, HidesTensorParallelTraffic) {
  const RankTrace own = traces_of("")[0];
  const Trace before = events_of(own, ActionKind::kBackward);
  const Trace nothing =
      events_of(as_done_by({.tensor = TensorTraffic::kNothing}, own), ActionKind::kBackward);
  const Trace gradient =
      events_of(as_done_by({.tensor = TensorTraffic::kWeightGradient}, own), ActionKind::kBackward);
  // Two layers and two microbatches: in each layer two messages, under two weight gradients each.
  EXPECT_EQ(products_under_messages(before), 2 * 2 * 2 * 2);
  EXPECT_EQ(products_under_messages(nothing), 0);
  EXPECT_EQ(products_under_messages(gradient), 2 * 2 * 2);
  EXPECT_EQ(bytes_of(nothing, TimePart::kTensor), bytes_of(before, TimePart::kTensor));
}

TEST(StackPrograms, RecomputesLayersToTheirEnd) {
  const RankTrace own = traces_of(kRecompute)[0];
  const RankTrace whole = as_done_by({.recomputes_whole_layers = true}, own);
  const Trace forward = events_of(own, ActionKind::kForward);
  const Trace backward = events_of(own, ActionKind::kBackward);
  const Trace all = events_of(whole, ActionKind::kBackward);
  EXPECT_LT(flops_of(backward, "linear_forward"), flops_of(forward, "linear_forward"));
  EXPECT_EQ(flops_of(all, "linear_forward"), flops_of(forward, "linear_forward"));
  // The last sum of a layer, too.
  const std::int64_t of_layers =
      bytes_of(all, TimePart::kTensor) - bytes_of(backward, TimePart::kTensor);
  EXPECT_EQ(of_layers, 2 * 2 * 4 * 128 * 512 * 2);
  const RankTrace without = traces_of("")[0];
  EXPECT_EQ(events_of(as_done_by({.recomputes_whole_layers = true}, without), ActionKind::kBackward)
                .size(),
            events_of(without, ActionKind::kBackward).size());
}

TEST(StackPrograms, SumsGradientsAfterThePasses) {
  for (const char* flags : {"", "--use-distributed-optimizer --overlap-grad-reduce"}) {
    const RankTrace own = traces_of(flags)[0];
    const RankTrace later = as_done_by({.hides_data = false, .gradient_bytes = 2.0}, own);
    const auto sums = [](const RankTrace& trace) {
      return bytes_of(events_of(trace, ActionKind::kBackward), TimePart::kData) +
             bytes_of(events_of(trace, ActionKind::kReduceGradients), TimePart::kData);
    };
    const auto of_step = [](const RankTrace& trace) {
      return bytes_of(events_of(trace, ActionKind::kOptimizerStep), TimePart::kData);
    };
    ASSERT_GT(sums(own), 0) << flags;
    EXPECT_EQ(sums(later), 0) << flags;
    EXPECT_NEAR(static_cast<double>(of_step(later)),
                0.5 * static_cast<double>(sums(own) + of_step(own)), 8.0)
        << flags;
  }
}

TEST(StackPrograms, ComputesLossesAtOnce) {
  const RankTrace own = traces_of("--seq-length 256 --max-position-embeddings 256")[1];
  const RankTrace at_once = as_done_by({.logit_bytes = 20.0}, own);
  const Trace before = events_of(own, ActionKind::kForward);
  const Trace after = events_of(at_once, ActionKind::kForward);
  EXPECT_GT(count_of(before, "vocabulary_parallel_cross_entropy"), 4);
  EXPECT_EQ(count_of(after, "vocabulary_parallel_cross_entropy"), 0);
  EXPECT_EQ(count_of(after, "cross_entropy"), 2);  // microbatches
  EXPECT_EQ(flops_of(after, "linear_forward"), flops_of(before, "linear_forward"));
}

TEST(StackPrograms, SendsWholeMessages) {
  const std::vector<RankTrace> own = traces_of("");
  for (const RankTrace& trace : own) {
    const RankTrace whole = as_done_by({.cuts_messages = false}, trace);
    EXPECT_EQ(bytes_of(events_of(whole, ActionKind::kSend), TimePart::kPipeline),
              2 * bytes_of(events_of(trace, ActionKind::kSend), TimePart::kPipeline));
    EXPECT_GT(bytes_of(events_of(trace, ActionKind::kReceive), TimePart::kTensor), 0);
    EXPECT_EQ(bytes_of(events_of(whole, ActionKind::kReceive), TimePart::kTensor), 0);
  }
}

TEST(StackPrograms, OpsOfTheirOwn) {
  const RankTrace own = traces_of("")[0];
  const RankTrace other = as_done_by(
      {.keeps_outputs = true, .separate_activation = true, .accumulation_bytes = 6.0}, own);
  const Trace before = events_of(own, ActionKind::kBackward);
  const Trace after = events_of(other, ActionKind::kBackward);
  EXPECT_GT(count_of(before, "layer_norm_apply"), 0);
  EXPECT_EQ(count_of(after, "layer_norm_apply"), 0);
  EXPECT_EQ(count_of(after, "bias_activation_forward"), 0);
  EXPECT_EQ(count_of(after, "bias_activation_backward"), 2 * 2);
  EXPECT_EQ(count_of(events_of(other, ActionKind::kForward), "bias_activation_forward"), 2 * 2);
  EXPECT_GE(count_of(after, "accumulate"), count_of(after, "linear_weight_gradient"));
}

}  // namespace
}  // namespace phalanx
