// Ranks whose calls differ, that do not come, or that fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "phalanx/base/test_support.h"
#include "phalanx/comm/transport_test_support.h"

namespace phalanx::transports {
namespace {

using enum PointToPoint::Direction;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kLong = 100003;

Work all_reduce(Rank& rank, std::int64_t count, DType dtype = DType::kF32,
                Reduction reduction = Reduction::kSum) {
  return rank.world.all_reduce(rank.context, rank.empty(dtype, count), reduction);
}
void wait(Rank& rank, const Work& work) { work.wait(rank.context.queue); }

// Two of three ranks agree. All must get an error, and one of them the full explanation.
void expect_mismatch(const Transport& transport, const Program& program, const std::string& one,
                     const std::string& other) {
  // A rank whose neighbours make the same call gets the error in its next call.
  const auto errors = errors_of(transport, 3, [&](Rank& rank) {
    program(rank);
    rank.world.barrier(rank.context);
  });
  for (const auto& error : errors) {
    EXPECT_THAT(error, AllOf(HasSubstr(one), HasSubstr(other), HasSubstr("world: call 0")));
  }
}

class MismatchTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(MismatchTest);

TEST_P(MismatchTest, DifferentCallsAreNamed) {
  const auto odd_one = [](Rank& rank) { return rank.rank() == 1; };
  expect_mismatch(
      transport(), [&](Rank& rank) { wait(rank, all_reduce(rank, odd_one(rank) ? 5 : 6)); },
      "all_reduce(sum, f32 x 5)", "all_reduce(sum, f32 x 6)");
  expect_mismatch(
      transport(),
      [&](Rank& rank) {
        wait(rank, all_reduce(rank, 5, odd_one(rank) ? DType::kI32 : DType::kF32));
      },
      "rank 1 calls all_reduce(sum, i32 x 5)", "calls all_reduce(sum, f32 x 5)");
  expect_mismatch(
      transport(),
      [&](Rank& rank) {
        wait(rank,
             all_reduce(rank, 5, DType::kF32, odd_one(rank) ? Reduction::kMax : Reduction::kSum));
      },
      "all_reduce(max", "all_reduce(sum");
  expect_mismatch(
      transport(),
      [&](Rank& rank) {
        const Tensor tensor = rank.empty(DType::kF32, 4);
        wait(rank, rank.world.broadcast(rank.context, tensor, odd_one(rank) ? 1 : 0));
      },
      "broadcast(f32 x 4, root 1)", "broadcast(f32 x 4, root 0)");
  expect_mismatch(
      transport(),
      [&](Rank& rank) {
        if (odd_one(rank)) rank.world.barrier(rank.context);
        wait(rank, all_reduce(rank, kLong));
      },
      "barrier", "all_reduce(sum, f32 x 100003)");
  expect_mismatch(
      transport(),
      [&](Rank& rank) {
        const int other = odd_one(rank) ? 1 : 2;
        rank.world.split(std::vector<std::vector<int>>{{0, other}, {3 - other}}, "tp");
      },
      "split(tp: [0 1] [2])", "split(tp: [0 2] [1])");
  expect_mismatch(
      transport(),
      [&](Rank& rank) {
        const std::int64_t one = odd_one(rank) ? 2 : 1;
        const std::vector<std::int64_t> to = {one, 1, 1}, from = {1, 1, 1};
        wait(rank, rank.world.all_to_all(rank.context, rank.empty(DType::kU8, 3), from,
                                         rank.empty(DType::kU8, 2 + one), to));
      },
      "all_to_all(gives 2 elements to rank 0)", "all_to_all(takes 1 elements from rank 1)");
}

TEST_P(MismatchTest, MessagesThatDifferAreNamed) {
  struct Side {
    DType dtype;
    std::int64_t count;
    std::uint64_t key;
  };
  const Side sent{DType::kF32, 8, 0x30};
  for (const Side& expected :
       {Side{DType::kF32, 8, 0x31}, Side{DType::kF32, 9, 0x30}, Side{DType::kBF16, 8, 0x30}}) {
    const auto errors = errors_of(transport(), 2, [&](Rank& rank) {
      rank.world.barrier(rank.context);
      if (rank.rank() == 0) {
        const Tensor tensor = rank.empty(sent.dtype, sent.count);
        wait(rank, rank.world.send(rank.context, tensor, 1, sent.key));
      } else {
        const Tensor tensor = rank.empty(expected.dtype, expected.count);
        wait(rank, rank.world.receive(rank.context, tensor, 0, expected.key));
      }
      // A send may be complete before its message is seen.
      rank.world.barrier(rank.context);
    });
    for (const auto& error : errors) {
      EXPECT_THAT(error, HasSubstr("calls send(f32 x 8, key 0x30)"));
      EXPECT_THAT(error,
                  HasSubstr(fmt::format("rank 1 calls receive({} x {}, key {:#x})",
                                        name_of(expected.dtype), expected.count, expected.key)));
    }
  }
}

// Rank 2 fails while the others wait in `program`.
void expect_wakes(const Transport& transport, const Program& program) {
  const auto errors = errors_of(transport, 3, [&](Rank& rank) {
    if (rank.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      throw DataError("shard 7 is malformed");
    }
    program(rank);
  });
  EXPECT_EQ(errors[2], "shard 7 is malformed");
  EXPECT_EQ(errors[0], "rank 2 failed: shard 7 is malformed");
  EXPECT_EQ(errors[1], "rank 2 failed: shard 7 is malformed");
}

class AbortTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(AbortTest);

TEST_P(AbortTest, WakesEveryKindOfWait) {
  expect_wakes(transport(), [](Rank& rank) { wait(rank, all_reduce(rank, kLong)); });
  expect_wakes(transport(), [](Rank& rank) {
    all_reduce(rank, 3).wait_host(Work::Clock::now() + std::chrono::hours(1));
  });
  expect_wakes(transport(), [](Rank& rank) { rank.world.barrier(rank.context); });
  expect_wakes(transport(), [](Rank& rank) {
    rank.world.split(std::vector<std::vector<int>>{{0, 1, 2}}, "all");
  });
  expect_wakes(transport(), [](Rank& rank) {
    const Tensor tensor = rank.empty(DType::kF32, 3);
    wait(rank, rank.world.receive(rank.context, tensor, 2, 0));
  });
  expect_wakes(transport(), [](Rank& rank) {
    const Tensor tensor = rank.empty(DType::kF32, kLong);
    wait(rank, rank.world.send(rank.context, tensor, 1 - rank.rank(), 0));
  });
  expect_wakes(transport(), [](Rank& rank) {
    const Work work = all_reduce(rank, 3);
    while (!work.done()) std::this_thread::yield();
  });
}

TEST_P(AbortTest, WakesAllOfSixteenRanksInTheirGroups) {
  const auto errors = errors_of(transport(), 16, [](Rank& rank) {
    std::vector<std::vector<int>> pairs;
    for (int r = 0; r < 16; r += 2) pairs.push_back({r, r + 1});
    const auto pair = rank.world.split(pairs, "pair");
    if (rank.rank() == 5) throw DataError("no");
    for (;;) pair->barrier(rank.context);
  });
  for (std::size_t r = 0; r < errors.size(); ++r) {
    EXPECT_EQ(errors[r], r == 5 ? "no" : "rank 5 failed: no");
  }
}

TEST_P(AbortTest, EveryLaterCallThrowsAndTheFirstReasonCounts) {
  const World two = world(2);
  Rank rank(*two.ends[0], 1 << 16);
  const Work before = all_reduce(rank, 3);
  two.ends[1]->abort("first");
  two.ends[0]->abort("second");
  const auto expect_throws = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "did not throw";
    } catch (const CommError& error) {
      EXPECT_STREQ(error.what(), "rank 1 failed: first");
      EXPECT_EQ(error.code(), ErrorCode::kTemporary);
      EXPECT_EQ(error.place().rank, 1);
    }
  };
  const Tensor tensor = rank.empty(DType::kF32, 2);
  expect_throws([&] { wait(rank, before); });
  expect_throws([&] { before.done(); });
  expect_throws([&] { all_reduce(rank, 3); });
  expect_throws([&] { rank.world.send(rank.context, tensor, 1, 0); });
  expect_throws([&] { rank.world.barrier(rank.context); });
  expect_throws([&] { rank.world.split({}, "none"); });
}

// A rank fails while the others are in the middle of a large operation. Its memory is freed at
// once, and then theirs: no piece may still access it.
TEST_P(AbortTest, NoTensorIsTouchedAfterAnError) {
  constexpr std::int64_t kCount = 1 << 20;
  for (int round = 0; round < 6; ++round) {
    const auto errors = errors_of(
        transport(), 4,
        [&](Rank& rank) {
          const Tensor tensor = rank.empty(DType::kF32, kCount);
          for (int i = 0;; ++i) {
            const Work work = rank.world.all_reduce(rank.context, tensor, Reduction::kSum);
            if (rank.rank() == round % 4 && i == 1) throw DataError("stop");
            wait(rank, work);
          }
        },
        {}, kCount * 4);
    for (const auto& error : errors) EXPECT_THAT(error, HasSubstr("stop"));
  }
}

class TimeoutTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(TimeoutTest);

TEST_P(TimeoutTest, NamesTheRanksThatHaveNotCome) {
  const World four = world(4, {.timeout = transport().patience});
  Rank early(*four.ends[0], 1 << 16), waiting(*four.ends[2], 1 << 16);
  all_reduce(early, 5);
  try {
    wait(waiting, all_reduce(waiting, 5));
    ADD_FAILURE() << "did not throw";
  } catch (const CommError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kHang);
    EXPECT_EQ(error.place().rank, 2);
    EXPECT_EQ(error.place().group, "world");
    EXPECT_EQ(error.place().operation, "all_reduce(sum, f32 x 5)");
    EXPECT_EQ(error.place().number, 0);
    EXPECT_THAT(error.what(), HasSubstr("rank 2: world: all_reduce(sum, f32 x 5), call 0: waited"));
    EXPECT_THAT(error.what(), HasSubstr("for ranks 1, 3, not come so far"));
  }
}

TEST_P(TimeoutTest, EndsTheWorldAndADeadlineDoesNot) {
  const World two = world(2, {.timeout = std::chrono::milliseconds(500)});
  Rank rank(*two.ends[0], 1 << 16);
  const Tensor tensor = rank.empty(DType::kF32, 5);
  const Work work = rank.world.receive(rank.context, tensor, 1, 0x77);
  const auto soon = Work::Clock::now() + std::chrono::milliseconds(1);
  EXPECT_THROW(work.wait_host(soon), CommError);
  EXPECT_FALSE(work.done());
  EXPECT_THAT(error_of<CommError>([&] { wait(rank, work); }),
              AllOf(HasSubstr("message 0 (f32 x 5, key 0x77)"), HasSubstr("from rank 1 to rank 0"),
                    HasSubstr("for rank 1,")));
  EXPECT_THROW(work.done(), CommError);
}

class BusyTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(BusyTest);

TEST_P(BusyTest, ABusyRankIsWaitedForLongerThanTheLimit) {
  const World two = world(2, {.timeout = transport().patience});
  Rank waiting(*two.ends[0], 1 << 16), slow(*two.ends[1], 1 << 16);
  testing::internal::CaptureStderr();
  std::optional<Communicator::Busy> busy(slow.world.busy("saving the checkpoint of iteration 7"));
  {
    std::jthread thread([&] {
      std::this_thread::sleep_for(3 * transport().patience);
      slow.world.barrier(slow.context);
    });
    EXPECT_NO_THROW(waiting.world.barrier(waiting.context));
  }
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("waiting for rank 1, which has been saving the checkpoint of iteration 7 for 0"));
  busy.reset();
  EXPECT_THROW(waiting.world.barrier(waiting.context), CommError);
}

TEST_P(BusyTest, BusyRanksThatWaitForEachOtherTimeOut) {
  const auto errors =
      errors_of(transport(), 2,
                [](Rank& rank) {
                  const Communicator::Busy busy = rank.world.busy("saving");
                  const Tensor tensor = rank.empty(DType::kF32, 1);
                  wait(rank, rank.world.receive(rank.context, tensor, 1 - rank.rank(), 0));
                },
                {.timeout = transport().patience});
  for (const auto& error : errors) EXPECT_THAT(error, HasSubstr("not come so far"));
}

}  // namespace
}  // namespace phalanx::transports
