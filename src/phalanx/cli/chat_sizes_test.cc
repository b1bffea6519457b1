#include "phalanx/cli/chat_sizes.h"

#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

TEST(ChatSizes, ASequenceHoldsNearlyAllConversations) {
  std::vector<std::int64_t> lengths(99, 100);
  lengths.push_back(3000);  // one of a hundred may be longer
  EXPECT_EQ(chosen_sequence(lengths, 4096), 128);
  EXPECT_EQ(fitting(lengths, 128), 99);
  lengths.push_back(3000);  // two of 101 may not
  EXPECT_EQ(chosen_sequence(lengths, 4096), 3072);
  EXPECT_EQ(chosen_sequence(lengths, 2048), 2048);  // the model's positions
  EXPECT_EQ(chosen_sequence(std::vector<std::int64_t>{64}, 4096), 64);
  EXPECT_EQ(chosen_sequence(std::vector<std::int64_t>{65}, 4096), 128);
  EXPECT_EQ(chosen_sequence(std::vector<std::int64_t>{512}, 4096), 512);
  EXPECT_EQ(chosen_sequence(std::vector<std::int64_t>{513}, 4096), 640);
}

TEST(ChatSizes, ABatchLeavesSomeIterations) {
  EXPECT_EQ(chosen_batch(100'000, 1), 16);
  EXPECT_EQ(chosen_batch(113, 1), 16);  // 8 iterations
  EXPECT_EQ(chosen_batch(112, 1), 8);   // 7 of 16
  EXPECT_EQ(chosen_batch(5, 1), 1);
  EXPECT_EQ(chosen_batch(5, 4), 4);
  EXPECT_EQ(chosen_batch(100'000, 3), 18);
}

TEST(ChatSizes, AnEpochIsEvaluatedAtLeastEvery500Iterations) {
  EXPECT_EQ(chosen_interval(1), 1);
  EXPECT_EQ(chosen_interval(500), 500);
  EXPECT_EQ(chosen_interval(501), 251);
  EXPECT_EQ(chosen_interval(1500), 500);
}

}  // namespace
}  // namespace phalanx
