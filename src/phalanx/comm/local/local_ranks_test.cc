#include "phalanx/comm/local/local_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "phalanx/comm/transport_test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Starts this many threads and no more.
ThreadStarter starts_only(int& left) {
  return [&left](std::function<void()> body) {
    if (left-- == 0) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    return start_thread(std::move(body));
  };
}

template <typename Function>
std::string system_error_of(const Function& function) {
  try {
    function();
  } catch (const SystemError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(LocalRanksTest, ThreadsThatCannotAllBeStartedAreMissedBeforeTheRunBegins) {
  int left = 5;
  std::atomic<int> bodies = 0;
  const std::string error = system_error_of([&] {
    run_local_ranks(2, {.threads_per_rank = 3, .start_thread = starts_only(left)},
                    [&](Communicator&) { ++bodies; });
  });
  EXPECT_THAT(error, AllOf(HasSubstr("5 of 6 threads were started"), HasSubstr("Limits: "),
                           HasSubstr("--nproc")));
  EXPECT_EQ(bodies, 0);
}

// With the default limit of ten minutes.
TEST(LocalRanksTest, ARankWithoutAThreadEndsTheOthersAtOnce) {
  int left = 3 + 2;
  std::atomic<int> ended = 0;
  const std::string error = system_error_of([&] {
    run_local_ranks(3, {.start_thread = starts_only(left)}, [&](Communicator& world) {
      transports::Rank rank(world, 1 << 10);
      try {
        world.barrier(rank.context);
      } catch (const CommError& reason) {
        EXPECT_STREQ(reason.what(), "rank 2 failed: its thread could not be started");
        ++ended;
        throw;
      }
    });
  });
  EXPECT_THAT(error, HasSubstr("2 of 3 threads were started"));
  EXPECT_EQ(ended, 2);
}

TEST(LocalRanksTest, OneRankNeedsNoThreadButItsWorkers) {
  int left = 0;
  run_local_ranks(1, {.start_thread = starts_only(left)}, [](Communicator&) {});
  EXPECT_EQ(left, 0);
  EXPECT_THROW(run_local_ranks(1, {.threads_per_rank = 2, .start_thread = starts_only(left)},
                               [](Communicator&) {}),
               SystemError);
}

}  // namespace
}  // namespace phalanx
