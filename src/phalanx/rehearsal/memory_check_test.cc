#include "phalanx/rehearsal/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/train/pretrain.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kGiB = 1LL << 30;

MemoryPlan plan_of(std::int64_t optimizer, std::int64_t saved) {
  MemoryPlan plan{.library_bound = 3 * kGiB,
                  .process_bound = 2 * kGiB,
                  .saved_per_microbatch = {saved},
                  .microbatches_in_flight = {1},
                  .messages = {},
                  .transfers = {}};
  plan.bytes["optimizer"] = optimizer;
  plan.bytes["saved"] = saved;
  return plan;
}

TrainConfig config_of(std::int64_t world) {
  TrainConfig config;
  config.layout.world_size = world;
  return config;
}

std::string refusal(const TrainConfig& config, const std::vector<RankPlan>& plans,
                    std::int64_t available) {
  return error_of<ConfigError>([&] {
    check_memory(config, plans, process_bytes(plans), static_cast<int>(config.layout.world_size),
                 {available, "memory.max of cgroup /job"});
  });
}

TEST(MemoryCheck, AddsUpAllRanksAndOneLibrary) {
  const std::vector<RankPlan> plans = {{plan_of(kGiB, 2 * kGiB), {0, 1}},
                                       {plan_of(kGiB, 9 * kGiB), {2}}};
  EXPECT_EQ(process_bytes(plans), (2 * 3 + 10 + 3 * 1 + 2) * kGiB);
  EXPECT_EQ(refusal(config_of(3), plans, 21 * kGiB), "no error");
  EXPECT_NE(refusal(config_of(3), plans, 21 * kGiB - 1), "no error");
}

TEST(MemoryCheck, SaysWhatIsMissingAndWhatToDo) {
  const std::vector<RankPlan> plans = {{plan_of(kGiB, 2 * kGiB), {0}},
                                       {plan_of(kGiB, 9 * kGiB), {1}}};
  const std::string error = refusal(config_of(2), plans, 5 * kGiB);
  EXPECT_THAT(error,
              AllOf(HasSubstr("17.0 GiB needed, 5.00 GiB available (memory.max of cgroup "
                              "/job) for 2 ranks"),
                    HasSubstr("Memory plan of rank 1, the largest:\n"),
                    HasSubstr("saved activations        9.00 GiB"),
                    HasSubstr("Most of it: saved activations (9.00 GiB)"),
                    HasSubstr("--recompute-granularity full"),
                    HasSubstr("fewer data-parallel ranks"), HasSubstr("--allow-overcommit")));
}

// What only the host reads does not count.
TEST(MemoryCheck, ComparesArenasWithADevice) {
  MemoryPlan plan = plan_of(kGiB, 9 * kGiB);
  plan.bytes["snapshot"] = 7 * kGiB;
  EXPECT_EQ(device_bytes(plan), 10 * kGiB);
  check_device_memory(config_of(1), plan, 10 * kGiB);
  EXPECT_THAT(
      error_of<ConfigError>([&] { check_device_memory(config_of(1), plan, 10 * kGiB - 1); }),
      AllOf(HasSubstr("the rank needs 10.0 GiB of the device's memory, of which 10.00 GiB"),
            HasSubstr("--recompute-granularity full"), Not(HasSubstr("snapshot"))));
}

TEST(MemoryCheck, OvercommitIsAllowedWithAWarning) {
  const std::vector<RankPlan> plans = {{plan_of(9 * kGiB, kGiB), {0}}};
  TrainConfig config = config_of(1);
  EXPECT_THAT(refusal(config, plans, kGiB),
              AllOf(HasSubstr("optimizer (9.00 GiB)"), HasSubstr("a smaller model")));
  config.run.allow_overcommit = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal(config, plans, kGiB), "no error");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning: the run does not fit"), HasSubstr("--allow-overcommit")));
}

TEST(MemoryCheck, GenerationToo) {
  const AvailableMemory available{kGiB, "MemAvailable"};
  EXPECT_NO_THROW(check_memory(false, kGiB, available, "End it"));
  EXPECT_THROW(check_memory(false, kGiB + 1, available, "End it"), ConfigError);
  EXPECT_NO_THROW(check_memory(true, kGiB + 1, available, "End it"));
}

}  // namespace
}  // namespace phalanx
