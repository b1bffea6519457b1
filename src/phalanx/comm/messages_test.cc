// Point-to-point messages, works under way at the same time, and split groups.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "phalanx/comm/transport_test_support.h"

namespace phalanx::transports {
namespace {

using enum PointToPoint::Direction;
// More than one piece, and more than a message that is copied where it is posted.
constexpr std::int64_t kLong = 100003;

std::vector<double> constant(double value, std::int64_t count = kLong) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

void wait(Rank& rank, const Work& work) { work.wait(rank.context.queue); }

void all_reduce(Rank& rank, Communicator& group, const Tensor& tensor) {
  wait(rank, group.all_reduce(rank.context, tensor, Reduction::kSum));
}

class MessagesTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(MessagesTest);

TEST_P(MessagesTest, TheKthSendMeetsTheKthReceive) {
  run(2, [](Rank& rank) {
    Communicator& world = rank.world;
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 5; ++i) {
      const std::uint64_t key = message_key(MessageKind::kActivation, 3, static_cast<unsigned>(i));
      if (rank.rank() == 0) {
        tensors.push_back(rank.tensor(DType::kF32, constant(i, i % 2 == 0 ? kLong : 3)));
        works.push_back(world.send(rank.context, tensors.back(), 1, key));
      } else {
        tensors.push_back(rank.empty(DType::kF32, i % 2 == 0 ? kLong : 3));
        works.push_back(world.receive(rank.context, tensors.back(), 0, key));
      }
    }
    // Backwards: no message may depend on an earlier one being waited for.
    for (std::size_t i = works.size(); i-- > 0;) wait(rank, works[i]);
    for (std::size_t i = 0; i < works.size(); ++i) {
      EXPECT_EQ(read_values(tensors[i]), constant(static_cast<double>(i), tensors[i].count()));
    }
  });
}

std::vector<std::string> lines_of(const Trace& trace) {
  std::vector<std::string> lines;
  for (const TraceEvent& event : trace) {
    if (const auto* begun = std::get_if<MessageBegun>(&event)) {
      lines.push_back(fmt::format("{} {} of {} [{}] {} {} {} {}", begun->work, begun->op,
                                  begun->group->name, fmt::join(begun->group->ranks, " "),
                                  begun->bytes, begun->result_bytes, begun->peer, begun->key));
    } else if (const auto* awaited = std::get_if<Awaited>(&event)) {
      lines.push_back(fmt::format("awaits {}", awaited->work));
    }
  }
  return lines;
}

// The trace has every begin, and the first wait for each call, whatever is copied.
TEST_P(MessagesTest, TheTraceHasBeginsAndFirstWaits) {
  run(4, [](Rank& rank) {
    const int next = (rank.rank() + 1) % 4, last = (rank.rank() + 3) % 4;
    const auto pair = rank.world.split(std::vector<std::vector<int>>{{0, 2}, {3, 1}}, "pair");
    const Tensor a = rank.tensor(DType::kF32, constant(1, 8));
    const Tensor b = rank.tensor(DType::kF32, constant(2, 8)), c = rank.empty(DType::kF32, 8);
    const Work sum = rank.world.all_reduce(rank.context, a, Reduction::kSum);
    const Work gather = pair->all_gather(rank.context, rank.empty(DType::kF32, 16), b);
    const PointToPoint ring[] = {{kSend, next, 9, b}, {kReceive, last, 9, c}};
    const Work exchange = rank.world.exchange(rank.context, ring);
    const std::vector<Work> copies = {gather, gather};
    for (const Work& copy : copies) wait(rank, copy);
    sum.wait_host(Work::Clock::now() + std::chrono::minutes(1));
    wait(rank, exchange);
    wait(rank, sum);
    rank.world.barrier(rank.context);
    wait(rank, rank.world.broadcast(rank.context, a, 2));
    const std::string world = "of world [0 1 2 3]";
    EXPECT_EQ(lines_of(rank.recorder.events()),
              (std::vector<std::string>{
                  fmt::format("1 all_reduce {} 32 32 -1 0", world),
                  fmt::format("2 all_gather of pair [{}] 32 64 -1 0",
                              rank.rank() % 2 == 0 ? "0 2" : "3 1"),
                  fmt::format("3 send {} 32 0 {} 9", world, next),
                  fmt::format("3 receive {} 0 32 {} 9", world, last), "awaits 2", "awaits 1",
                  "awaits 3", fmt::format("4 barrier {} 0 0 -1 0", world), "awaits 4",
                  fmt::format("5 broadcast {} {} 32 2 0", world, rank.rank() == 2 ? 32 : 0),
                  "awaits 5"}));
  });
}

// A recorder may end, or forget, before what began is awaited.
TEST_P(MessagesTest, WorksOutliveTheRecorder) {
  run(2, [](Rank& rank) {
    const Tensor a = rank.tensor(DType::kF32, constant(1, 8)),
                 b = rank.tensor(DType::kF32, constant(2, 8));
    Work first;
    {
      Recorder recorder;
      rank.context.recorder = &recorder;
      first = rank.world.all_reduce(rank.context, a, Reduction::kSum);
      rank.context.recorder = &rank.recorder;
    }
    const Work second = rank.world.all_reduce(rank.context, b, Reduction::kSum);
    rank.recorder.clear();
    wait(rank, first);
    wait(rank, second);
    wait(rank, rank.world.all_reduce(rank.context, b, Reduction::kSum));
    EXPECT_EQ(lines_of(rank.recorder.events()),
              (std::vector<std::string>{"awaits 1", "2 all_reduce of world [0 1] 32 32 -1 0",
                                        "awaits 2"}));
    EXPECT_EQ(read_values(a), constant(2, 8));
  });
}

TEST_P(MessagesTest, ARingOfExchangesDoesNotDeadlock) {
  constexpr int kRanks = 5;
  run(kRanks, [](Rank& rank) {
    const int next = (rank.rank() + 1) % kRanks, last = (rank.rank() + kRanks - 1) % kRanks;
    Tensor mine = rank.tensor(DType::kF32, constant(rank.rank()));
    Tensor other = rank.empty(DType::kF32, kLong);
    for (int step = 1; step <= kRanks; ++step) {
      const PointToPoint ring[] = {{kSend, next, 9, mine}, {kReceive, last, 9, other}};
      wait(rank, rank.world.exchange(rank.context, ring));
      std::swap(mine, other);
      EXPECT_EQ(read_values(mine), constant((rank.rank() - step + kRanks) % kRanks));
    }
  });
}

TEST_P(MessagesTest, ARankMaySendToItself) {
  for (const int ranks : {1, 2}) {
    run(ranks, [](Rank& rank) {
      const Tensor a = rank.tensor(DType::kI64, {1, 2}), b = rank.tensor(DType::kI64, {3});
      const Tensor c = rank.empty(DType::kI64, 2), d = rank.empty(DType::kI64, 1);
      const int me = rank.rank();
      const PointToPoint messages[] = {
          {kReceive, me, 1, c}, {kSend, me, 1, a}, {kSend, me, 2, b}, {kReceive, me, 2, d}};
      wait(rank, rank.world.exchange(rank.context, messages));
      EXPECT_EQ(read_values(c), (std::vector<double>{1, 2}));
      EXPECT_EQ(read_values(d), (std::vector<double>{3}));
    });
  }
}

class OverlapTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(OverlapTest);

TEST_P(OverlapTest, WorksAreWaitedForInAnyOrder) {
  constexpr int kRanks = 4, kWorks = 6;
  run(kRanks, [](Rank& rank) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < kWorks; ++i) {
      tensors.push_back(
          rank.tensor(DType::kF32, constant(rank.rank() + i, i % 3 == 0 ? 5 : kLong)));
      works.push_back(rank.world.all_reduce(rank.context, tensors.back(), Reduction::kSum));
    }
    for (int i = 0; i < kWorks; ++i) {
      const int place = rank.rank() % 2 == 0 ? kWorks - 1 - i : (i + rank.rank()) % kWorks;
      wait(rank, works[static_cast<std::size_t>(place)]);
      EXPECT_TRUE(works[static_cast<std::size_t>(place)].done());
      const Tensor& tensor = tensors[static_cast<std::size_t>(place)];
      EXPECT_EQ(read_values(tensor), constant(6 + kRanks * place, tensor.count()));
    }
  });
}

TEST_P(OverlapTest, AskingIsProgress) {
  run(2, [](Rank& rank) {
    const Tensor sum = rank.tensor(DType::kF32, constant(1));
    const Work work = rank.world.all_reduce(rank.context, sum, Reduction::kSum);
    while (!work.done()) std::this_thread::yield();
    EXPECT_EQ(read_values(sum), constant(2));
  });
}

TEST_P(OverlapTest, ADroppedWorkIsFinishedByOthers) {
  run(2, [](Rank& rank) {
    const Tensor sum = rank.tensor(DType::kF32, constant(1));
    if (rank.rank() == 0) {
      wait(rank, rank.world.all_reduce(rank.context, sum, Reduction::kSum));
    } else {
      rank.world.all_reduce(rank.context, sum, Reduction::kSum);
    }
    rank.world.barrier(rank.context);
    EXPECT_EQ(read_values(sum), constant(2));
  });
}

class SplitTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(SplitTest);

TEST_P(SplitTest, RowsAndColumnsWorkAtTheSameTime) {
  // 2 x 3, rows fastest; members of the columns in descending order.
  const std::vector<std::vector<int>> rows = {{0, 1, 2}, {3, 4, 5}};
  const std::vector<std::vector<int>> columns = {{3, 0}, {4, 1}, {5, 2}};
  run(6, [&](Rank& rank) {
    const auto row = rank.world.split(rows, "row");
    const auto column = rank.world.split(columns, "column");
    const int r = rank.rank() / 3, c = rank.rank() % 3;
    EXPECT_EQ(row->name(), "row");
    EXPECT_EQ(row->rank(), c);
    EXPECT_EQ(column->rank(), 1 - r);
    EXPECT_EQ(column->size(), 2);
    for (int round = 0; round < 3; ++round) {
      const Tensor a = rank.tensor(DType::kF32, constant(rank.rank()));
      const Tensor b = rank.tensor(DType::kF32, constant(rank.rank()));
      const Work in_row = row->all_reduce(rank.context, a, Reduction::kSum);
      const Work in_column = column->broadcast(rank.context, b, 0);
      if (r == 0) wait(rank, in_row);
      wait(rank, in_column);
      wait(rank, in_row);
      EXPECT_EQ(read_values(a), constant(9 * r + 3));
      EXPECT_EQ(read_values(b), constant(3 + c));
    }
  });
}

TEST_P(SplitTest, ARankMayBeInNoGroupAndGroupsMaySplitAgain) {
  run(5, [](Rank& rank) {
    const auto four = rank.world.split(std::vector<std::vector<int>>{{4, 3, 2, 1}}, "four");
    EXPECT_EQ(four == nullptr, rank.rank() == 0);
    if (four == nullptr) return;
    const auto two = four->split(std::vector<std::vector<int>>{{0, 1}, {2, 3}}, "two");
    const Tensor tensor = rank.tensor(DType::kI32, {rank.rank() * 1.0});
    all_reduce(rank, *two, tensor);
    EXPECT_EQ(read_values(tensor)[0], rank.rank() >= 3 ? 7 : 3);
    const auto alone = two->split(std::vector<std::vector<int>>{{0}, {1}}, "one");
    alone->barrier(rank.context);
    all_reduce(rank, *alone, tensor);
    EXPECT_EQ(read_values(tensor)[0], rank.rank() >= 3 ? 7 : 3);
  });
}

}  // namespace
}  // namespace phalanx::transports
