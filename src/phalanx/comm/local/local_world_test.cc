// Promises of the local transport only: waiting ranks do the pieces, also those of others, and
// count what they read.

#include "phalanx/comm/local/local_world.h"

#include <gtest/gtest.h>

#include <atomic>

#include "phalanx/comm/transport_test_support.h"

namespace phalanx::local {
namespace {

using transports::Rank;
using transports::read_values;
using transports::write_values;

// More than one piece, and more than a message that is copied where it is posted.
constexpr std::int64_t kLong = 100003;

std::vector<double> constant(double value) {
  return std::vector<double>(static_cast<std::size_t>(kLong), value);
}

void wait(Rank& rank, const Work& work) { work.wait(rank.context.queue); }

void run_ranks(int size, const transports::Program& program) {
  transports::run_ranks(transports::local_transport(), size, program);
}

// Rank 0 posts an operation and then waits for something that needs rank 1, which waits for the
// operation: rank 1 must be able to finish it alone.
TEST(LocalPiecesTest, OneWaiterFinishesAnOperation) {
  run_ranks(3, [](Rank& rank) {
    const Tensor sum = rank.tensor(DType::kF32, constant(1));
    const Tensor token = rank.tensor(DType::kF32, {5});
    const Work work = rank.world.all_reduce(rank.context, sum, Reduction::kSum);
    if (rank.rank() == 0) {
      wait(rank, rank.world.receive(rank.context, token, 1, 0));
      EXPECT_EQ(read_values(token), (std::vector<double>{6}));
      EXPECT_TRUE(work.done());
    } else {
      wait(rank, work);
      if (rank.rank() == 1) {
        write_values(token, {6});
        wait(rank, rank.world.send(rank.context, token, 0, 0));
      }
    }
    wait(rank, work);
    EXPECT_EQ(read_values(sum), constant(3));
  });
}

// Rank 2 waits for a message and meanwhile does the pieces of an operation in which it takes no
// part; no other rank waits until they are done.
TEST(LocalPiecesTest, AWaiterDoesThePiecesOfOthers) {
  std::atomic<bool> finished = false;
  run_ranks(3, [&](Rank& rank) {
    const auto pair = rank.world.split(std::vector<std::vector<int>>{{0, 1}}, "pair");
    const Tensor token = rank.tensor(DType::kF32, {1});
    if (rank.rank() == 2) {
      wait(rank, rank.world.receive(rank.context, token, 0, 0));
      return;
    }
    const Tensor sum = rank.tensor(DType::kF32, constant(1));
    const Work work = pair->all_reduce(rank.context, sum, Reduction::kSum);
    if (rank.rank() == 0) {
      while (local_bytes_read(rank.world)[1] < sum.bytes()) std::this_thread::yield();
      finished = true;
      wait(rank, rank.world.send(rank.context, token, 2, 0));
    }
    while (!finished) std::this_thread::yield();
    wait(rank, work);
    EXPECT_EQ(read_values(sum), constant(2));
  });
}

TEST(LocalPiecesTest, BytesReadAreBytesRecorded) {
  constexpr int kRanks = 3;
  std::vector<std::int64_t> recorded(kRanks), read;
  run_ranks(kRanks, [&](Rank& rank) {
    Context& context = rank.context;
    const std::int64_t count = 50000;
    const Tensor part = rank.empty(DType::kF32, count), other = rank.empty(DType::kF32, count);
    const Tensor whole = rank.empty(DType::kF32, kRanks * count);
    const Tensor whole_output = rank.empty(DType::kF32, kRanks * count);
    wait(rank, rank.world.all_reduce(context, part, Reduction::kMax));
    wait(rank, rank.world.reduce_scatter(context, part, whole, Reduction::kSum));
    wait(rank, rank.world.all_gather(context, whole, part));
    wait(rank, rank.world.broadcast(context, part, 1));
    wait(rank, rank.world.all_to_all(context, whole_output, whole));
    using enum PointToPoint::Direction;
    const int next = (rank.rank() + 1) % kRanks, last = (rank.rank() + kRanks - 1) % kRanks;
    const PointToPoint ring[] = {{kSend, next, 7, part}, {kReceive, last, 7, other}};
    wait(rank, rank.world.exchange(context, ring));
    auto columns = rank.world.split(std::vector<std::vector<int>>{{2, 0}, {1}}, "pair");
    wait(rank, columns->all_reduce(context, part, Reduction::kMin));
    rank.world.barrier(context);
    auto& sum = recorded[static_cast<std::size_t>(rank.rank())];
    for (const auto& message : rank.recorder.messages()) sum += message.bytes;
    if (rank.rank() == 0) read = local_bytes_read(*columns);
  });
  EXPECT_EQ(read, recorded);
  EXPECT_EQ(recorded[1], 4 * 50000 * (1 + 3 + 1 + 1 + 3 + 1));
  EXPECT_EQ(recorded[2], 4 * 50000 * (1 + 3 + 1 + 0 + 3 + 1 + 1));
}

}  // namespace
}  // namespace phalanx::local
