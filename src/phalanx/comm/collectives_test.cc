#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "phalanx/comm/sum_test_support.h"
#include "phalanx/comm/transport_test_support.h"

namespace phalanx::transports {
namespace {

constexpr DType kAllTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                               DType::kI64, DType::kI32, DType::kU8};
constexpr Reduction kAllReductions[] = {Reduction::kSum, Reduction::kMax, Reduction::kMin};
// Nothing, odd, more than one block of the arithmetic, more than one piece of every type.
constexpr std::int64_t kCounts[] = {0, 1, 1031, 33001};

// One rank after the other. A sum of two floats in double, rounded to float, is their sum
// in float.
std::vector<double> serial_reduction(const std::vector<std::vector<double>>& inputs, DType dtype,
                                     Reduction reduction) {
  const bool sixteen_bits = dtype == DType::kBF16 || dtype == DType::kF16;
  const DType wide = sixteen_bits ? DType::kF32 : dtype;
  std::vector<double> result;
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    double value = rounded(dtype, inputs[0][i]);
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const double next = rounded(dtype, inputs[r][i]);
      if (reduction == Reduction::kSum) value = rounded(wide, value + next);
      if (reduction == Reduction::kMax) value = std::max(value, next);
      if (reduction == Reduction::kMin) value = std::min(value, next);
    }
    result.push_back(rounded(dtype, value));
  }
  return result;
}

using Values = std::vector<double>;

// The values of each rank. Made once, before the ranks run.
std::vector<Values> all_inputs(int ranks, DType dtype, std::int64_t count) {
  std::vector<Values> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(values_of(rank, dtype, count));
  return inputs;
}

Values part_of(const Values& values, int part, std::int64_t count) {
  const auto begin = values.begin() + part * count;
  return {begin, begin + count};
}

using transports::rounded;
Values rounded(DType dtype, Values values) {
  for (double& value : values) value = rounded(dtype, value);
  return values;
}

std::vector<Values> rounded(DType dtype, std::vector<Values> values) {
  for (Values& of_rank : values) of_rank = rounded(dtype, std::move(of_rank));
  return values;
}

void wait(Rank& rank, const Work& work) { work.wait(rank.context.queue); }

class CollectivesTest : public testing::TestWithParam<std::tuple<const Transport*, int>> {
 protected:
  static int ranks() { return std::get<int>(GetParam()); }
  void run(const Program& program, std::int64_t arena_bytes = 1 << 22) const {
    run_ranks(world_, program, arena_bytes);
  }

 private:
  World world_ = std::get<0>(GetParam())->make(ranks(), {});
};
std::string name_of_case(const testing::TestParamInfo<CollectivesTest::ParamType>& parameters) {
  return std::get<0>(parameters.param)->name + std::to_string(std::get<1>(parameters.param));
}
INSTANTIATE_TEST_SUITE_P(Threads, CollectivesTest,
                         testing::Combine(testing::Values(&local_transport()),
                                          testing::Values(1, 2, 3, 4, 5, 8)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Processes, CollectivesTest,
                         testing::Combine(testing::Values(&shared_memory_transport(),
                                                          &tcp_transport()),
                                          testing::Values(2, 3, 5)),
                         name_of_case);

TEST_P(CollectivesTest, AllReduceEqualsTheSerialReduction) {
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t count : kCounts) {
      const auto inputs = all_inputs(ranks(), dtype, count);
      std::map<Reduction, Values> expected;
      for (const Reduction reduction : kAllReductions) {
        expected[reduction] = serial_reduction(inputs, dtype, reduction);
      }
      run([&](Rank& rank) {
        const Tensor tensor = rank.empty(dtype, count);
        for (const Reduction reduction : kAllReductions) {
          write_values(tensor, inputs[rank.index()]);
          wait(rank, rank.world.all_reduce(rank.context, tensor, reduction));
          EXPECT_EQ(read_values(tensor), expected.at(reduction))
              << name_of(dtype) << " " << name_of(reduction);
        }
      });
    }
  }
}

TEST_P(CollectivesTest, ReduceScatterGivesEachRankItsPart) {
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{5}, std::int64_t{9001}}) {
      const auto inputs = all_inputs(ranks(), dtype, count * ranks());
      const auto stored = rounded(dtype, inputs);
      std::map<Reduction, Values> whole;
      for (const Reduction reduction : kAllReductions) {
        whole[reduction] = serial_reduction(inputs, dtype, reduction);
      }
      run([&](Rank& rank) {
        const Tensor input = rank.empty(dtype, count * ranks());
        const Tensor output = rank.empty(dtype, count);
        for (const Reduction reduction : kAllReductions) {
          const auto expected = part_of(whole.at(reduction), rank.rank(), count);
          write_values(input, inputs[rank.index()]);
          wait(rank, rank.world.reduce_scatter(rank.context, output, input, reduction));
          EXPECT_EQ(read_values(output), expected);
          EXPECT_EQ(read_values(input), stored[rank.index()]);

          const Tensor own = input.slice(0, rank.rank() * count, count);
          wait(rank, rank.world.reduce_scatter(rank.context, own, input, reduction));
          EXPECT_EQ(read_values(own), expected) << "in place";
        }
      });
    }
  }
}

TEST_P(CollectivesTest, AllGatherPutsTheInputsInRankOrder) {
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t count : kCounts) {
      const auto inputs = all_inputs(ranks(), dtype, count);
      Values expected;
      for (const Values& stored : rounded(dtype, inputs)) {
        expected.insert(expected.end(), stored.begin(), stored.end());
      }
      const auto program = [&](Rank& rank) {
        const Values& mine = inputs[rank.index()];
        const Tensor output = rank.empty(dtype, count * ranks());
        wait(rank, rank.world.all_gather(rank.context, output, rank.tensor(dtype, mine)));
        EXPECT_EQ(read_values(output), expected);

        const Tensor own_output = rank.empty(dtype, count * ranks());
        const Tensor own = own_output.slice(0, rank.rank() * count, count);
        write_values(own, mine);
        wait(rank, rank.world.all_gather(rank.context, own_output, own));
        EXPECT_EQ(read_values(own_output), expected) << "in place";
      };
      run(program, 1 << 24);
    }
  }
}

TEST_P(CollectivesTest, BroadcastComesFromEveryRoot) {
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t count : kCounts) {
      const auto inputs = all_inputs(ranks(), dtype, count);
      const auto expected = rounded(dtype, inputs);
      run([&](Rank& rank) {
        const Tensor tensor = rank.empty(dtype, count);
        for (int root = 0; root < ranks(); ++root) {
          write_values(tensor, inputs[rank.index()]);
          wait(rank, rank.world.broadcast(rank.context, tensor, root));
          EXPECT_EQ(read_values(tensor), expected[static_cast<std::size_t>(root)]);
        }
      });
    }
  }
}

TEST_P(CollectivesTest, AllToAllTransposesTheParts) {
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{3}, std::int64_t{9001}}) {
      const std::int64_t all = count * ranks();
      const auto inputs = all_inputs(ranks(), dtype, all);
      const auto stored = rounded(dtype, inputs);
      run([&](Rank& rank) {
        const Tensor input = rank.tensor(dtype, inputs[rank.index()]);
        const Tensor output = rank.empty(dtype, all);
        wait(rank, rank.world.all_to_all(rank.context, output, input));
        for (int source = 0; source < ranks(); ++source) {
          EXPECT_EQ(read_values(output.slice(0, source * count, count)),
                    part_of(stored[static_cast<std::size_t>(source)], rank.rank(), count));
        }
      });
    }
  }
}

// Rank s has for rank d: (s + 2 d) mod 4 elements, all s * 10 + d.
TEST_P(CollectivesTest, AllToAllTakesUnequalParts) {
  const auto count = [](int source, int destination) {
    return std::int64_t{(source + 2 * destination) % 4};
  };
  run([&](Rank& rank) {
    std::vector<std::int64_t> to, from;
    std::vector<double> given, expected;
    for (int peer = 0; peer < ranks(); ++peer) {
      to.push_back(count(rank.rank(), peer));
      from.push_back(count(peer, rank.rank()));
      given.insert(given.end(), static_cast<std::size_t>(to.back()), rank.rank() * 10 + peer);
      expected.insert(expected.end(), static_cast<std::size_t>(from.back()),
                      peer * 10 + rank.rank());
    }
    if (ranks() == 1) expected = given;
    const Tensor output = rank.empty(DType::kI32, std::ssize(expected));
    wait(rank,
         rank.world.all_to_all(rank.context, output, from, rank.tensor(DType::kI32, given), to));
    EXPECT_EQ(read_values(output), expected);
  });
}

class ReductionTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(ReductionTest);

TEST_P(ReductionTest, SixteenBitSumsKeepFp32BetweenRanks) {
  // 256 + 1 is not a bf16: rounded after each rank it would stay 256.
  run(5, [](Rank& rank) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const double large = dtype == DType::kBF16 ? 256.0 : 2048.0;
      const Tensor tensor = rank.tensor(dtype, {rank.rank() == 0 ? large : 1.0});
      wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
      EXPECT_EQ(read_values(tensor), std::vector<double>{large + 4.0});
    }
  });
}

TEST_P(ReductionTest, SumsRunInRankOrder) {
  // (2^24 + 1) - 2^24 is 0 in this order and 1 in others.
  run(3, [](Rank& rank) {
    const double values[] = {0x1p24, 1.0, -0x1p24};
    const Tensor tensor = rank.tensor(DType::kF32, {values[rank.rank()]});
    wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
    EXPECT_EQ(read_values(tensor), std::vector<double>{0.0});
  });
}

TEST_P(ReductionTest, IntegersWrapAround) {
  run(2, [](Rank& rank) {
    const Tensor tensor = rank.tensor(DType::kI32, {2147483647.0});
    wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
    EXPECT_EQ(read_values(tensor), std::vector<double>{-2.0});
  });
}

TEST_P(ReductionTest, NanComesThrough) {
  run(3, [](Rank& rank) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
      for (const Reduction reduction : kAllReductions) {
        for (int culprit = 0; culprit < 3; ++culprit) {
          const double nan = std::numeric_limits<double>::quiet_NaN();
          const Tensor tensor = rank.tensor(dtype, {rank.rank() == culprit ? nan : 1.0, 2.0});
          wait(rank, rank.world.all_reduce(rank.context, tensor, reduction));
          EXPECT_TRUE(std::isnan(read_values(tensor)[0]));
          EXPECT_FALSE(std::isnan(read_values(tensor)[1]));
        }
      }
    }
  });
}

// A program that mixes all operations; its bits may depend only on the values.
std::vector<std::byte> bits_of_mixed_program(const Transport& transport, int ranks, bool delays,
                                             const WorldOptions& options = {}) {
  std::vector<std::vector<std::byte>> bits(static_cast<std::size_t>(ranks));
  constexpr std::int64_t kCount = 40013;
  const auto program = [&](Rank& rank) {
    std::mt19937 random(static_cast<unsigned>(rank.rank()));
    const auto pause = [&] {
      if (delays) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    };
    const Tensor a = rank.tensor(DType::kF32, values_of(rank.rank(), DType::kF32, kCount));
    const Tensor all = rank.empty(DType::kF32, kCount * ranks);
    for (int round = 0; round < 4; ++round) {
      pause();
      const Work gather = rank.world.all_gather(rank.context, all, a);
      pause();
      wait(rank, gather);
      const Work scatter = rank.world.reduce_scatter(rank.context, a, all, Reduction::kSum);
      pause();
      wait(rank, scatter);
      pause();
      wait(rank, rank.world.all_reduce(rank.context, a, Reduction::kSum));
      rank.world.barrier(rank.context);
    }
    bits[static_cast<std::size_t>(rank.rank())] = bytes_of(a);
  };
  run_ranks(transport, ranks, program, options, 1 << 23);
  for (const auto& other : bits) EXPECT_EQ(other, bits[0]);
  return bits[0];
}

class MixedProgramTest : public TransportTest {};
PHALANX_ON_ALL_TRANSPORTS(MixedProgramTest);

// The transport does not change the bits either.
TEST_P(MixedProgramTest, DelaysDoNotChangeBits) {
  const auto bits = bits_of_mixed_program(local_transport(), 4, false);
  EXPECT_EQ(bits_of_mixed_program(transport(), 4, false), bits);
  EXPECT_EQ(bits_of_mixed_program(transport(), 4, true), bits);
}

TEST_P(MixedProgramTest, MoreRanksThanCores) {
  const auto bits = bits_of_mixed_program(local_transport(), 16, false);
  EXPECT_EQ(bits_of_mixed_program(transport(), 16, true), bits);
}

TEST_P(MixedProgramTest, ThreadsDoNotChangeBits) {
  const auto bits = bits_of_mixed_program(local_transport(), 3, false);
  EXPECT_EQ(bits_of_mixed_program(transport(), 3, false, {.threads_per_rank = 2}), bits);
}

#if defined(__x86_64__)
// The sum is subnormal, whichever thread of whichever rank adds.
TEST_P(MixedProgramTest, SubnormalSumsAreZeroOnAllRanks) {
  run_ranks(transport(), 3,
            [](Rank& rank) {
              const double smallest = std::numeric_limits<float>::min();
              const std::vector<double> parts = {1.5 * smallest, -smallest, 0.0};
              const std::vector<double> part(300000, parts[static_cast<std::size_t>(rank.rank())]);
              const Tensor tensor = rank.tensor(DType::kF32, part);
              wait(rank, rank.world.all_reduce(rank.context, tensor, Reduction::kSum));
              for (const double sum : read_values(tensor)) ASSERT_EQ(sum, 0.0);
            },
            {.threads_per_rank = 2});
}
#endif

}  // namespace
}  // namespace phalanx::transports
