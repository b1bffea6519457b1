// The closed forms of experts' messages are what the planning backend counts in a whole step. That
// a run with equally busy experts sends as much is a matter of tests/layouts.

#include "phalanx/planner/expert_messages.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kLayers = 4, kMicrobatches = 2;

// Ranks, and flags of the layout.
struct Case {
  std::int64_t world;
  const char* flags;
};
constexpr Case kCases[] = {
    {2, "--expert-model-parallel-size 2"},
    {4, "--expert-model-parallel-size 4 --moe-router-topk 3"},
    {2,
     "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2 "
     "--expert-tensor-parallel-size 1"},
    {4,
     "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2 "
     "--expert-tensor-parallel-size 2 --bf16"},
    {4, "--context-parallel-size 2 --expert-model-parallel-size 2 --bf16"},
    {4, "--expert-model-parallel-size 2 --expert-tensor-parallel-size 2 --bf16"},
};

RunPlan plan_of(const Case& one, const std::string& more) {
  return planned(with_flags(
      planned_config(one.world),
      fmt::format("--num-experts 8 --moe-ffn-hidden-size 32 --moe-router-force-load-balancing {} "
                  "{}",
                  one.flags, more)));
}
// With a batch of two microbatches of every data-parallel rank.
RunPlan two_microbatches(const Case& one, const std::string& more) {
  const RunPlan plan = plan_of(one, more);
  const std::int64_t samples = samples_per_microbatch(plan.config.layout);
  return plan_of(one, fmt::format("{} --global-batch-size {}", more, kMicrobatches * samples));
}

// Bytes of rank 0 in the group of a layer's experts.
std::int64_t counted(const RunPlan& plan, const char* op) {
  return plan.groups.front().memory.messages.by_key().at({"tp-ep", op}).bytes;
}

ExpertMessages messages_of(const RunPlan& plan) {
  return *expert_messages(plan.config, plan.model->transformer().dtype);
}

TEST(ExpertMessages, OfRowsAreThoseOfAPlan) {
  for (const Case& one : kCases) {
    for (const char* capacity :
         {"", "--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity"}) {
      SCOPED_TRACE(fmt::format("{} {}", one.flags, capacity));
      const RunPlan plan =
          two_microbatches(one, fmt::format("--moe-token-dispatcher-type alltoall {}", capacity));
      const ExpertMessages messages = messages_of(plan);
      EXPECT_EQ(counted(plan, "send"),
                kLayers * kMicrobatches *
                    (messages.dispatch.bytes + messages.combine.bytes +
                     messages.dispatch_backward.bytes + messages.combine_backward.bytes));
    }
  }
}

TEST(ExpertMessages, OfGatheredTokensAreThoseOfAPlan) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.flags);
    const RunPlan plan = two_microbatches(one, "--moe-token-dispatcher-type allgather");
    const ExpertMessages messages = messages_of(plan);
    EXPECT_EQ(
        counted(plan, "all_gather"),
        kLayers * kMicrobatches * (messages.dispatch.bytes + messages.dispatch_backward.bytes));
    EXPECT_EQ(counted(plan, "reduce_scatter"),
              kLayers * kMicrobatches * (messages.combine.bytes + messages.combine_backward.bytes));
  }
}

// 32 tokens of the rank with two experts each, in two bytes, on ranks that are two by two: of four
// ranks of an expert's rows one is the rank itself, for half of the pairs.
TEST(ExpertMessages, APlanTellsThem) {
  const RunPlan rows = plan_of(kCases[3], "--moe-token-dispatcher-type alltoall");
  EXPECT_THAT(
      to_text(rows),
      HasSubstr("have equally many rows (T = s b / 2 = 32 tokens, k 2, h 64, e 2, etp 2):\n"
                "  dispatch T k (e etp - 1) / e (2 h + 4) = 12,672 B, backward T k (e etp - 1) / e "
                "(2 h) = 12,288 B\n"
                "  combine  T k (e etp - 1) / e (2 h) = 12,288 B, backward T k (e etp - 1) / e "
                "(2 h + 4) = 12,672 B\n"));
  const Json json = Json::parse(to_json(rows)).at("model").at("expert_messages");
  EXPECT_EQ(json.at("dispatch").at("forward").at("formula"), "T k (e etp - 1) / e (2 h + 4)");
  EXPECT_EQ(json.at("dispatch").at("forward").at("bytes"), 12672);
  EXPECT_EQ(json.at("combine").at("forward").at("bytes"), 12288);

  const RunPlan gathered = plan_of(kCases[0], "--moe-token-dispatcher-type allgather");
  EXPECT_THAT(to_text(gathered),
              HasSubstr("  dispatch T (4 h + 8 k) = 17,408 B, backward T 4 h = 16,384 B\n"
                        "  combine  e etp T 4 h = 32,768 B, backward e etp T 4 (h + k) = 33,792 "
                        "B\n"));

  const RunPlan padded = plan_of(kCases[0],
                                 "--moe-token-dispatcher-type alltoall "
                                 "--moe-expert-capacity-factor 1.5 "
                                 "--moe-pad-expert-input-to-capacity");
  // 24 rows of each of eight experts.
  EXPECT_THAT(to_text(padded), HasSubstr("dispatch E C (e etp - 1) / e (4 h + 4) = 24,960 B"));

  const RunPlan alone = plan_of({1, ""}, "");
  EXPECT_FALSE(expert_messages(alone.config, DType::kF32).has_value());
  EXPECT_THAT(to_text(alone), Not(HasSubstr("dispatch")));
  EXPECT_FALSE(Json::parse(to_json(alone)).at("model").contains("expert_messages"));
}

}  // namespace
}  // namespace phalanx
