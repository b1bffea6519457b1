// The order of sums on all transports, and what the order of messages must not depend on.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "phalanx/comm/sum_test_support.h"
#include "phalanx/comm/transport_test_support.h"

namespace phalanx::transports {
namespace {

void wait(Rank& rank, const Work& work) { work.wait(rank.context.queue); }

bool is_nightly() { return std::getenv("PHALANX_NIGHTLY") != nullptr; }

// Ranks of a world: threads, or processes on so many hosts.
struct Where {
  std::string name;
  int hosts;  // 0: threads
};
World make_world(const Where& where, int size, int block) {
  const WorldOptions options{.sum_block = block};
  if (where.hosts == 0) return local_transport().make(size, options);
  return make_hosts(size, std::min(where.hosts, size), options);
}

struct Sum {
  DType dtype;
  std::int64_t count;  // of the whole; of a part: divided by the ranks
};
// What fits beside a header, what is cut into a slice for each rank, and several pieces of a slice.
std::vector<Sum> sums_of(int ranks, bool all) {
  std::vector<Sum> sums = {{DType::kF32, 700},   {DType::kBF16, 37}, {DType::kBF16, 5003},
                           {DType::kF16, 40000}, {DType::kF64, 3},   {DType::kF64, 9001},
                           {DType::kI32, 12345}, {DType::kI64, 77},  {DType::kU8, 9001}};
  if (all) {
    // Chunks of such groups have up to 144 KiB.
    sums.push_back({DType::kF32, std::int64_t{ranks} * 40001});
    sums.push_back({DType::kBF16, std::int64_t{ranks} * 80001});
  }
  return sums;
}

// Values repeat: so there are few to make and to add by the definition.
constexpr std::int64_t kPeriod = 1543;
std::vector<double> repeated(const std::vector<double>& values, std::int64_t count) {
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(count + kPeriod));
  while (std::ssize(all) < count) all.insert(all.end(), values.begin(), values.end());
  all.resize(static_cast<std::size_t>(count));
  return all;
}

struct Case {
  Sum sum;
  std::vector<std::vector<double>> inputs;
  std::vector<double> expected;
};

void expect_sums(const World& world, int ranks, const std::vector<Case>& cases) {
  std::int64_t largest = 0;
  for (const Case& c : cases) largest = std::max(largest, c.sum.count * size_of(c.sum.dtype));
  run_ranks(
      world,
      [&](Rank& rank) {
        for (const Case& c : cases) {
          const auto label =
              fmt::format("{} x {}, {} ranks", name_of(c.sum.dtype), c.sum.count, ranks);
          rank.arena.release(0);
          const std::int64_t part = c.sum.count / ranks;
          const Tensor tensor = rank.empty(c.sum.dtype, c.sum.count);
          write_values(tensor, c.inputs[rank.index()]);
          if (part > 0) {
            const Tensor input = tensor.slice(0, 0, part * ranks);
            const Tensor output = rank.empty(c.sum.dtype, part);
            wait(rank, rank.world.reduce_scatter(rank.context, output, input, Reduction::kSum));
            const auto begin = c.expected.begin() + rank.rank() * part;
            EXPECT_TRUE(read_values(output) == std::vector<double>(begin, begin + part))
                << "reduce_scatter " << label;
          }
          wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
          EXPECT_TRUE(read_values(tensor) == c.expected) << "all_reduce " << label;
        }
      },
      2 * largest + (1 << 16));
}

void expect_one_order(int ranks, int block, const std::vector<Where>& places, bool all) {
  SCOPED_TRACE(fmt::format("{} ranks in blocks of {}", ranks, block));
  std::vector<Case> cases;
  for (const Sum& sum : sums_of(ranks, all)) {
    Case& c = cases.emplace_back(Case{.sum = sum, .inputs = {}, .expected = {}});
    for (int rank = 0; rank < ranks; ++rank) {
      c.inputs.push_back(values_of(rank, sum.dtype, std::min(sum.count, kPeriod)));
    }
    c.expected = repeated(tree_sums(c.inputs, block, sum.dtype), sum.count);
    for (auto& input : c.inputs) input = repeated(input, sum.count);
  }
  for (const Where& where : places) {
    SCOPED_TRACE(where.name);
    expect_sums(make_world(where, ranks, block), ranks, cases);
  }
}

const Where kThreads{"threads", 0}, kOneHost{"one host", 1}, kTwoHosts{"two hosts", 2},
    kThreeHosts{"three hosts", 3}, kApart{"a host each", 1 << 20};

TEST(SumOrderTest, TwoBlocksOnAllTransports) {
  expect_one_order(11, 8, {kThreads, kOneHost, kTwoHosts, kApart}, true);
}
// Three levels, and hosts that begin within blocks.
TEST(SumOrderTest, BlocksOfBlocks) {
  expect_one_order(18, 3, {kThreads, kOneHost, kThreeHosts}, false);
}
// More levels, and ranks with nothing to add.
TEST(SumOrderTest, BlocksOfTwo) { expect_one_order(17, 2, {kThreads, kTwoHosts}, false); }
TEST(SumOrderTest, ManyRanks) { expect_one_order(33, 4, {kThreads, kThreeHosts}, false); }

// Every size of a group; the last hosts' blocks are of every size too.
class SumOrderOfEverySizeTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Blocks, SumOrderOfEverySizeTest, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());
TEST_P(SumOrderOfEverySizeTest, IsTheTrees) {
  if (!is_nightly()) GTEST_SKIP() << "minutes: PHALANX_NIGHTLY=1";
  for (int ranks = 2; ranks <= 33; ++ranks) {
    expect_one_order(ranks, GetParam(), {kThreads, kOneHost, kTwoHosts, kThreeHosts, kApart}, true);
  }
}

// 16-bit data is rounded once: between blocks, too.
TEST(SumOrderTest, SixteenBitsAreRoundedAtTheEnd) {
  for (const Where& where : {kThreads, kOneHost, kTwoHosts}) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{40000}}) {
      run_ranks(make_world(where, 12, 4), [&](Rank& rank) {
        // Near 512 every fourth number is a bf16: 513.875 + 2.5 + 2.5 is 520, and 512 + 5 is 516.
        const double value = rank.rank() == 0 ? 512.0 : 0.625;
        const Tensor tensor =
            rank.tensor(DType::kBF16, std::vector<double>(static_cast<std::size_t>(count), value));
        wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
        EXPECT_EQ(read_values(tensor), std::vector<double>(static_cast<std::size_t>(count), 520.0))
            << where.name;
      });
    }
  }
}

// Largest and smallest values, and NaN, go through blocks too.
TEST(SumOrderTest, MaximaDoNotCare) {
  for (const Where& where : {kThreads, kTwoHosts}) {
    run_ranks(make_world(where, 12, 4), [&](Rank& rank) {
      for (const std::int64_t count : {7, 30000}) {
        const Tensor tensor = rank.empty(DType::kBF16, count);
        const std::vector<double> mine(static_cast<std::size_t>(count), (rank.rank() * 5) % 12);
        for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
          write_values(tensor, mine);
          wait(rank, rank.world.all_reduce(rank.context, tensor, reduction));
          EXPECT_EQ(read_values(tensor)[0], reduction == Reduction::kMax ? 11.0 : 0.0);
        }
        write_values(tensor, mine);
        if (rank.rank() == 6) write_values(tensor, {std::nan("")});
        wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kMax));
        EXPECT_TRUE(std::isnan(read_values(tensor)[0]));
        EXPECT_EQ(read_values(tensor)[1], 11.0);
      }
    });
  }
}

// Of a reduce-scatter between two hosts, the sum of a block crosses the network once for each
// member of the other host. Headers go round the group.
TEST(SumTrafficTest, OneSumOfABlockLeavesTheHost) {
  constexpr int kRanks = 16;
  constexpr std::int64_t kPart = 20000;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<UcxTraffic> traffic(kRanks);
    run_ranks(make_hosts(kRanks, 2, {.sum_block = 8}), [&](Rank& rank) {
      const Tensor input = rank.tensor(dtype, std::vector<double>(kRanks * kPart, 1.0));
      const Tensor output = rank.empty(dtype, kPart);
      const UcxTraffic before = ucx_network_traffic(rank.world);
      wait(rank, rank.world.reduce_scatter(rank.context, output, input, Reduction::kSum));
      const UcxTraffic after = ucx_network_traffic(rank.world);
      traffic[rank.index()] = {after.messages - before.messages, after.bytes - before.bytes};
      EXPECT_EQ(read_values(output), std::vector<double>(kPart, kRanks));
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool sends_header = rank % 8 == 7;
      const UcxTraffic& sent = traffic[static_cast<std::size_t>(rank)];
      EXPECT_EQ(sent.messages, 1 + (sends_header ? 1 : 0)) << rank;
      EXPECT_EQ(sent.bytes, kPart * 4 + (sends_header ? 40 : 0)) << rank;
    }
  }
}

// Up to 64 KiB a slice: the number of messages grows as the logarithm of the group.
TEST(SumTrafficTest, GathersTakeFewSteps) {
  constexpr int kRanks = 17;
  for (const std::int64_t bytes : {8000, 80000}) {
    std::vector<std::int64_t> sent(kRanks);
    run_ranks(
        tcp_transport(), kRanks,
        [&](Rank& rank) {
          const Tensor input = rank.empty(DType::kU8, bytes);
          std::memset(input.data(), rank.rank(), static_cast<std::size_t>(bytes));
          const Tensor output = rank.empty(DType::kU8, kRanks * bytes);
          wait(rank, rank.world.all_gather(rank.context, output, input));
          sent[rank.index()] = ucx_network_traffic(rank.world).messages;
          for (int other = 0; other < kRanks; ++other) {
            const std::vector<std::byte> expected(static_cast<std::size_t>(bytes),
                                                  static_cast<std::byte>(other));
            EXPECT_EQ(bytes_of(output.slice(0, other * bytes, bytes)), expected);
          }
        },
        {}, 1 << 21);
    for (const std::int64_t messages : sent) {
      // The header; a range in each of ceil(log2 17) steps, or two.
      EXPECT_LE(messages, bytes == 8000 ? 1 + 2 * 5 : 1 + kRanks - 1);
    }
  }
}

// Small sums of more ranks than send to each other go up the tree: no rank receives from all.
TEST(SumTrafficTest, SmallSumsGoUpTheTree) {
  constexpr int kRanks = 18;
  std::vector<std::int64_t> sent(kRanks);
  run_ranks(tcp_transport(), kRanks, [&](Rank& rank) {
    // (2^24 + 1) - 2^24 is 0 in this order and 1 in others.
    const double values[] = {0x1p24, 1.0, -0x1p24};
    const Tensor tensor =
        rank.tensor(DType::kF32, {rank.rank() < 3 ? values[rank.rank()] : 0.0, rank.rank() * 1.0});
    wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
    EXPECT_EQ(read_values(tensor), (std::vector<double>{0.0, kRanks * (kRanks - 1) / 2}));
    sent[rank.index()] = ucx_network_traffic(rank.world).messages;
  });
  std::int64_t all = 0;
  for (const std::int64_t messages : sent) all += messages;
  // A header of each; all but the first send a sum up, and get the whole sum.
  EXPECT_EQ(all, kRanks + 2 * (kRanks - 1));
}

// The sums of data-parallel ranks wait for the last of them, more at a time than a communicator
// adds at once. Those of tensor-parallel ranks go on: the last rank comes when they are done.
TEST(SumsOfGroupsTest, DoNotWaitForOtherGroups) {
  constexpr std::int64_t kCount = 100001;
  const std::vector<std::vector<int>> tensors = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  const std::vector<std::vector<int>> datas = {{0, 2, 4, 6}, {1, 3, 5, 7}};
  std::barrier done(8);
  const auto program = [&](Rank& rank) {
    const auto tensor = rank.world.split(tensors, "tp");
    const auto data = rank.world.split(datas, "dp");
    const bool is_last = rank.rank() >= 6;
    std::vector<Tensor> buckets;
    std::vector<Work> works;
    const auto begin = [&] {
      for (int i = 0; i < 4; ++i) {
        buckets.push_back(rank.tensor(DType::kF32, std::vector<double>(kCount, i)));
        works.push_back(data->all_reduce(rank.context, buckets.back(), Reduction::kSum));
      }
    };
    if (!is_last) begin();
    for (int layer = 0; layer < 3; ++layer) {
      const Tensor activation = rank.tensor(DType::kF32, std::vector<double>(kCount, 1.0));
      wait(rank, tensor->all_reduce(rank.context, activation, Reduction::kSum));
      EXPECT_EQ(read_values(activation), std::vector<double>(kCount, 2.0));
    }
    for (const Work& work : works) EXPECT_FALSE(work.done());
    done.arrive_and_wait();
    if (is_last) begin();
    for (std::size_t i = 0; i < works.size(); ++i) {
      wait(rank, works[i]);
      EXPECT_EQ(read_values(buckets[i]), std::vector<double>(kCount, 4.0 * static_cast<double>(i)));
    }
  };
  for (const int hosts : {1, 8}) {
    const World world = make_hosts(8, hosts, {.timeout = std::chrono::seconds(20)});
    const auto guarded = [&](Rank& rank) {
      try {
        program(rank);
      } catch (...) {
        done.arrive_and_drop();
        throw;
      }
    };
    run_ranks(world, guarded, 1 << 23);
  }
}

// Some of them wait for data, others for memory.
TEST(SumsOfGroupsTest, EndWithTheFirstFailure) {
  constexpr std::int64_t kCount = 100001;
  const auto errors = errors_of(make_hosts(12, 2, {.sum_block = 4}), [](Rank& rank) {
    if (rank.rank() == 11) throw std::runtime_error("rank 11 has lost its data");
    std::vector<Work> works;
    for (int i = 0; i < 5; ++i) {
      const Tensor bucket = rank.empty(DType::kF32, kCount);
      works.push_back(rank.world.all_reduce(rank.context, bucket, Reduction::kSum));
    }
    for (const Work& work : works) wait(rank, work);
  });
  for (const auto& error : errors)
    EXPECT_NE(error.find("rank 11 has lost its data"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::transports
