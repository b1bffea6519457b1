// What the transport of processes does besides the promises of all transports.

#include "phalanx/comm/ucx/ucx_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "phalanx/base/test_support.h"
#include "phalanx/comm/transport_test_support.h"

namespace phalanx::ucx {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using transports::Rank;
using transports::read_values;
using transports::run_ranks;
using transports::shared_memory_transport;
using transports::SharedWatch;
using transports::World;

void wait(Rank& rank, const Work& work) { work.wait(rank.context.queue); }

std::vector<double> constant(double value, std::int64_t count) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

SharedWatch& watch_of(const World& world) { return *static_cast<SharedWatch*>(world.keeps.get()); }

// Rank 0 makes no call during rank 1's wait: its helper does its share of the sum and its part of
// the message.
TEST(UcxWorldTest, MessagesAdvanceWhileARankComputes) {
  constexpr std::int64_t kCount = 1 << 20;
  for (const transports::Transport* transport : transports::all_transports()) {
    if (transport == &transports::local_transport()) continue;
    std::barrier received(2);
    struct Arrival {
      std::barrier<>& at;
      bool mine;
      ~Arrival() {
        if (mine) static_cast<void>(at.arrive());
      }
    };
    const auto program = [&](Rank& rank) {
      const Arrival whatever_happens{received, rank.rank() == 1};
      const Tensor sum = rank.tensor(DType::kF32, constant(1, kCount));
      const Tensor message = rank.tensor(DType::kF32, constant(rank.rank(), kCount));
      rank.world.barrier(rank.context);
      const Work adding = rank.world.all_reduce(rank.context, sum, Reduction::kSum);
      const Work moving = rank.rank() == 0 ? rank.world.send(rank.context, message, 1, 0)
                                           : rank.world.receive(rank.context, message, 0, 0);
      if (rank.rank() == 0) received.arrive_and_wait();
      wait(rank, adding);
      wait(rank, moving);
      EXPECT_EQ(read_values(sum), constant(2, kCount));
      EXPECT_EQ(read_values(message), constant(0, kCount));
    };
    run_ranks(*transport, 2, program, {.timeout = std::chrono::seconds(20)}, 1 << 24);
  }
}

// Too many ranks for an exchange between all: one rank adds for all.
TEST(UcxWorldTest, SmallSumsOfManyRanksRunInRankOrder) {
  constexpr int kRanks = 18;
  run_ranks(
      shared_memory_transport(), kRanks,
      [](Rank& rank) {
        // (2^24 + 1) - 2^24 is 0 in this order and 1 in others.
        const double values[] = {0x1p24, 1.0, -0x1p24};
        const Tensor tensor = rank.tensor(
            DType::kF32, {rank.rank() < 3 ? values[rank.rank()] : 0.0, rank.rank() * 1.0});
        wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
        EXPECT_EQ(read_values(tensor), (std::vector<double>{0.0, kRanks * (kRanks - 1) / 2}));
        const Tensor all = rank.empty(DType::kI32, kRanks);
        wait(rank, rank.world.all_gather(rank.context, all,
                                         rank.tensor(DType::kI32, {rank.rank() * 1.0})));
        for (int other = 0; other < kRanks; ++other) EXPECT_EQ(read_values(all)[other], other);
      },
      {}, 1 << 16);
}

// Some ranks have made more groups than others; the next groups have one id on all of their ranks,
// and another id than earlier ones.
TEST(UcxWorldTest, GroupsOfRanksWithDifferentPastsAreKeptApart) {
  constexpr int kRanks = 11;
  const auto pairs = [](int size) {
    std::vector<std::vector<int>> groups;
    for (int rank = 0; rank + 1 < size; rank += 2) groups.push_back({rank, rank + 1});
    return groups;
  };
  run_ranks(
      shared_memory_transport(), kRanks,
      [&](Rank& rank) {
        const auto few = rank.world.split(std::vector<std::vector<int>>{{4, 5, 6}}, "few");
        std::vector<std::unique_ptr<Communicator>> made;
        for (int i = 0; i < 3; ++i) {
          made.push_back(few ? few->split(pairs(3), "of few") : nullptr);
        }
        for (const auto& [groups, name] :
             {std::pair(std::vector<std::vector<int>>{{5, 0, 10}, {4, 9}, {6, 1}, {2, 3}}, "far"),
              std::pair(pairs(kRanks), "near"), std::pair(pairs(kRanks), "near too")}) {
          made.push_back(rank.world.split(groups, name));
        }
        // Neighbours call their groups in different orders.
        const bool is_odd = rank.rank() % 2 == 1;
        if (is_odd) std::ranges::reverse(made);
        const auto value_of = [&](std::size_t i) {
          return static_cast<double>(is_odd ? made.size() - i : i + 1);
        };
        std::vector<Tensor> tensors(made.size());
        std::vector<Work> works(made.size());
        for (std::size_t i = 0; i < made.size(); ++i) {
          if (!made[i]) continue;
          tensors[i] = rank.tensor(DType::kF32, {value_of(i)});
          works[i] = made[i]->all_reduce(rank.context, tensors[i], Reduction::kSum);
        }
        for (std::size_t i = 0; i < made.size(); ++i) {
          if (!made[i]) continue;
          wait(rank, works[i]);
          EXPECT_EQ(read_values(tensors[i])[0], value_of(i) * made[i]->size());
        }
      },
      {.timeout = std::chrono::seconds(20)}, 1 << 16);
}

// More sums at once than there are scratch blocks.
TEST(UcxWorldTest, SumsWaitForMemoryInAnyOrder) {
  constexpr std::int64_t kCount = 300001;
  run_ranks(
      shared_memory_transport(), 3,
      [](Rank& rank) {
        std::vector<Tensor> tensors;
        std::vector<Work> works;
        for (int i = 0; i < 7; ++i) {
          tensors.push_back(rank.tensor(DType::kF32, constant(rank.rank() + i, kCount)));
          works.push_back(rank.world.all_reduce(rank.context, tensors.back(), Reduction::kSum));
        }
        for (std::size_t i = 0; i < works.size(); ++i) {
          const std::size_t place = (i + static_cast<std::size_t>(rank.rank()) * 3) % works.size();
          wait(rank, works[place]);
          EXPECT_EQ(read_values(tensors[place]),
                    constant(3.0 + 3.0 * static_cast<double>(place), kCount));
        }
      },
      {}, 1 << 24);
}

TEST(UcxWorldTest, TheWatchHearsOfLongWaits) {
  const World world = shared_memory_transport().make(3, {});
  run_ranks(world, [](Rank& rank) {
    if (rank.rank() != 0) std::this_thread::sleep_for(milliseconds(200));
    rank.world.barrier(rank.context);
  });
  EXPECT_THAT(watch_of(world).waits(), testing::Contains("rank 0 in world: barrier for rank 2"));
}

// The error has the code of the failure.
TEST(UcxWorldTest, WhatTheWatchFindsEndsAllWaits) {
  const World world = shared_memory_transport().make(3, {});
  std::jthread watcher([&] {
    std::this_thread::sleep_for(milliseconds(30));
    watch_of(world).fail(2, ErrorCode::kHang, "rank 2 (host n02) has not moved for 5 s");
  });
  for (std::size_t index = 0; index < 2; ++index) {
    Rank rank(*world.ends[index], 1 << 16);
    try {
      rank.world.barrier(rank.context);
      ADD_FAILURE() << "did not throw";
    } catch (const CommError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kHang);
      EXPECT_EQ(error.place().rank, 2);
      EXPECT_STREQ(error.what(), "rank 2 (host n02) has not moved for 5 s");
    }
  }
}

TEST(UcxWorldTest, ADeadlineIsNoFailure) {
  run_ranks(shared_memory_transport(), 2, [](Rank& rank) {
    const Tensor tensor = rank.tensor(DType::kF32, {rank.rank() * 1.0});
    if (rank.rank() == 0) {
      const Work work = rank.world.receive(rank.context, tensor, 1, 5);
      try {
        work.wait_host(Work::Clock::now() + milliseconds(1));
      } catch (const CommError& error) {
        EXPECT_EQ(error.code(), ErrorCode::kHang);
      }
      rank.world.barrier(rank.context);
      wait(rank, work);
      EXPECT_EQ(read_values(tensor)[0], 1.0);
    } else {
      rank.world.barrier(rank.context);
      wait(rank, rank.world.send(rank.context, tensor, 0, 5));
    }
  });
}

TEST(UcxWorldTest, ALonelyRankNeedsNoWire) {
  const auto watch = make_idle_watch();
  LocalMailbox mailbox;
  const auto world = make_ucx_world(0, transports::places_of(1, 1), {}, *watch, mailbox);
  Rank rank(*world, 1 << 16);
  rank.world.barrier(rank.context);
  EXPECT_EQ(world->split(std::vector<std::vector<int>>{{0}}, "one")->size(), 1);
}

// A sample is looked at when the world is made, an address when the first message needs it.
TEST(UcxWorldTest, WhatIsNoSampleOrAddressIsRefused) {
  for (const char* text : {"", "1 2", "1 2 zz", "1 x 00", "1 2 00", "1 2 3 4"}) {
    const auto watch = make_idle_watch();
    LocalMailbox mailbox;
    mailbox.post("sample/1", text);
    EXPECT_THAT(error_of<SystemError>(
                    [&] { make_ucx_world(0, transports::places_of(2, 1), {}, *watch, mailbox); }),
                HasSubstr("rank 1 says nothing that can be understood"))
        << text;
  }
  for (const char* text : {"", "00.", ".00 .00", "0. .", "zz. .", ". zz.", ". . ."}) {
    const auto watch = make_idle_watch();
    LocalMailbox mailbox;
    mailbox.post("address/1", text);
    const auto world =
        make_ucx_world(0, transports::places_of(2, 2), {.network_device = "lo"}, *watch, mailbox);
    Rank rank(*world, 1 << 16);
    EXPECT_THAT(error_of<CommError>([&] { rank.world.barrier(rank.context); }),
                HasSubstr("rank 1 says nothing that can be understood"))
        << text;
  }
}

TEST(UcxWorldTest, ARankThatListensElsewhereIsNamed) {
  const auto watch = make_idle_watch();
  LocalMailbox mailbox;
  mailbox.post("address/1", "00. .");
  const auto world =
      make_ucx_world(0, transports::places_of(2, 2), {.network_device = "lo"}, *watch, mailbox);
  Rank rank(*world, 1 << 16);
  EXPECT_EQ(error_of<CommError>([&] { rank.world.barrier(rank.context); }),
            "rank 1 does not listen on the network");
}

// Rank 1 never begins; the watch finds out.
TEST(UcxWorldTest, AFailureEndsTheWaitForAPeerThatHasNotBegun) {
  SharedWatch watch(2);
  const auto world = make_ucx_world(0, transports::places_of(2, 2), {.network_device = "lo"},
                                    watch.end(0), watch.mailbox());
  std::jthread watcher([&] {
    std::this_thread::sleep_for(milliseconds(30));
    watch.fail(1, ErrorCode::kHang, "rank 1 (host n02) has not moved for 5 s");
  });
  Rank rank(*world, 1 << 16);
  try {
    rank.world.barrier(rank.context);
    ADD_FAILURE() << "did not throw";
  } catch (const CommError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kHang);
    EXPECT_EQ(error.place().rank, 1);
    EXPECT_STREQ(error.what(), "rank 1 (host n02) has not moved for 5 s");
  }
  EXPECT_THAT(watch.waits(), testing::Contains("rank 0 in world: barrier for rank 1"));
}

// Rank 2 leaves long before the others are done with each other.
TEST(UcxWorldTest, WhoLeavesEarlyWaitsForItsPeers) {
  for (const transports::Transport* transport : transports::all_transports()) {
    if (transport == &transports::local_transport()) continue;
    World world = transport->make(3, {.timeout = std::chrono::seconds(10)});
    std::vector<std::jthread> threads;
    for (auto& end : world.ends) {
      threads.emplace_back([&end] {
        try {
          Rank rank(*end, 1 << 16);
          rank.world.barrier(rank.context);
          const Tensor tensor = rank.tensor(DType::kF32, {rank.rank() * 1.0});
          if (rank.rank() < 2) std::this_thread::sleep_for(milliseconds(1500));
          for (int i = 0; i < 20 && rank.rank() < 2; ++i) {
            const int other = 1 - rank.rank();
            if (i % 2 == rank.rank()) {
              wait(rank, rank.world.send(rank.context, tensor, other, 0));
            } else {
              wait(rank, rank.world.receive(rank.context, tensor, other, 0));
            }
          }
          EXPECT_EQ(read_values(tensor)[0], rank.rank() < 2 ? 0.0 : 2.0);
        } catch (const CommError& error) {
          ADD_FAILURE() << error.what();
        }
        end.reset();
      });
    }
    threads.clear();
    EXPECT_THAT(watch_of(world).waits(),
                testing::Contains("rank 2 in world: goodbye for ranks 0, 1"));
  }
}

// 2 x 2 x 4 ranks split as in a run: nobody talks to all.
TEST(UcxWorldTest, RanksConnectOnlyToThoseThatTheyTalkTo) {
  constexpr int kRanks = 16;
  std::vector<std::vector<int>> tensors(8), datas(4), pipelines(8);
  for (int rank = 0; rank < kRanks; ++rank) {
    tensors[static_cast<std::size_t>(rank / 2)].push_back(rank);
    datas[static_cast<std::size_t>(rank % 2 + rank / 8 * 2)].push_back(rank);
    pipelines[static_cast<std::size_t>(rank % 8)].push_back(rank);
  }
  run_ranks(
      shared_memory_transport(), kRanks,
      [&](Rank& rank) {
        EXPECT_EQ(ucx_connections(rank.world), 0);
        for (const auto& groups : {tensors, datas, pipelines}) {
          const auto group = rank.world.split(groups, "group");
          const Tensor sum = rank.tensor(DType::kF32, {1.0});
          wait(rank, group->all_reduce(rank.context, sum, Reduction::kSum));
          EXPECT_EQ(read_values(sum)[0], group->size());
        }
        rank.world.barrier(rank.context);
        // Splits: 1, 2, 4 and 8 ahead and behind. Of the groups only one member is elsewhere, 6
        // away.
        EXPECT_LE(ucx_connections(rank.world), 8);
      },
      {}, 1 << 16);
}

UcxMemory memory_of(int size, int hosts, std::vector<int> summing) {
  return ucx_memory(0, transports::places_of(size, hosts), 8, summing);
}

TEST(UcxMemoryTest, GrowsWithThePeers) {
  const auto bytes = [](int size, int hosts) { return memory_of(size, hosts, {size}).bytes; };
  EXPECT_GT(bytes(8, 1), bytes(2, 1));
  EXPECT_GT(bytes(8, 2), bytes(4, 1));
  EXPECT_EQ(bytes(1, 1), 0);
  // With those of its groups, not of the world.
  EXPECT_EQ(memory_of(10000, 1250, {8, 16}).bytes, memory_of(1000, 125, {8, 16}).bytes);
  EXPECT_GT(memory_of(10000, 1250, {8, 1250}).bytes, memory_of(10000, 1250, {8, 16}).bytes);
}

// The ranks of a host share memory, which is not to be counted for each of them.
TEST(UcxMemoryTest, WhatIsSharedIsAPartOfIt) {
  for (const auto& [size, hosts] : {std::pair(8, 1), std::pair(64, 1), std::pair(64, 8)}) {
    const UcxMemory memory = memory_of(size, hosts, {4});
    EXPECT_GT(memory.shared, 0);
    EXPECT_LT(memory.shared, memory.bytes);
  }
  const auto own = [](int size) {
    const UcxMemory memory = memory_of(size, 1, {4});
    return memory.bytes - memory.shared;
  };
  EXPECT_EQ(own(8), own(64));
  EXPECT_EQ(memory_of(4, 4, {4}).shared, 0);
}

}  // namespace
}  // namespace phalanx::ucx
