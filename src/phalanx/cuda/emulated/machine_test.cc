#include "phalanx/cuda/emulated/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/cuda/emulated/sanitizer_test_support.h"
#include "phalanx/cuda/kernel.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_on_report(void* /*report*/) { ++phalanx::cuda::race_count(); }
// Tests count the reports; the same race in another run is another report.
extern "C" const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_stacks=0:suppress_equal_addresses=0";
}
#endif

namespace phalanx::cuda {
namespace {

// Drawn orders of a test.
constexpr std::uint64_t kSeeds = kUnderThreadSanitizer ? 5 : 20;

template <typename K>
void run(Machine& machine, const typename K::Params& params, Grid grid = {}) {
  const Kernel kernel{"K", [](Thread& thread, const void* p) {
                        K::run(thread, *static_cast<const typename K::Params*>(p));
                      }};
  machine.run(kernel, grid, {K::kThreads, K::shared_bytes(params)}, &params);
}

template <typename K>
std::string failure(const typename K::Params& params, std::uint64_t seed = 0) {
  Machine machine;
  machine.set_seed(seed);
  return error_of<InternalError>([&] { run<K>(machine, params); });
}

// One float for every block: the sum of its 128 numbers, twice over the same shared memory.
struct SumTwice {
  static constexpr int kThreads = 128;
  struct Params {
    const float* x;
    float* sums;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 4 * sizeof(float); }
  static void run(Thread& t, const Params& p) {
    auto* parts = t.shared<float>(4);
    float total = 0.0F;
    for (int round = 0; round < 2; ++round) {
      const float sum = warp_sum(t, p.x[t.block() * kThreads + t.index()]);
      if (t.lane() == 0) parts[t.warp()] = sum + static_cast<float>(round);
      t.sync();  // of what was written
      total += parts[0] + parts[1] + parts[2] + parts[3];
      t.sync();  // before it is overwritten
    }
    if (t.index() == 0) p.sums[t.block()] = total;
  }
};

// Every thread checks the sum, as a GPU's threads would.
struct SumTwiceAll : SumTwice {
  static void run(Thread& t, const Params& p) {
    auto* parts = t.shared<float>(4);
    float total = 0.0F;
    for (int round = 0; round < 2; ++round) {
      const float sum = warp_sum(t, p.x[t.index()]);
      if (t.lane() == 0) parts[t.warp()] = sum + static_cast<float>(round);
      t.sync();
      total += parts[0] + parts[1] + parts[2] + parts[3];
      t.sync();
    }
    p.sums[t.index()] = total;
  }
};

TEST(Machine, SumsInEveryOrder) {
  std::vector<float> x(256);
  std::iota(x.begin(), x.end(), 0.0F);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine machine;
    machine.set_seed(seed);
    machine.set_backwards(seed % 2 == 1);
    std::vector<float> sums(2, -1.0F);
    run<SumTwice>(machine, {x.data(), sums.data()}, {2});
    EXPECT_EQ(sums[0], 2 * 127 * 64 + 4);
    EXPECT_EQ(sums[1], 2 * (127 * 64 + 128 * 128) + 4);
  }
  EXPECT_EQ(take_races(), 0);
}

// Of the barriers behind a write and before the next one, either's absence is seen.
TEST(Machine, ADroppedBarrierIsSeen) {
  std::vector<float> x(128, 1.0F);
  std::vector<float> sums(128);
  Machine machine;
  run<SumTwiceAll>(machine, {x.data(), sums.data()});
  const std::vector<BarrierPlace> places = machine.take_places();
  ASSERT_EQ(places.size(), 2U);
  for (const BarrierPlace& place : places) {
    EXPECT_EQ(place.file, "machine_test.cc");
    EXPECT_EQ(place.kind, "sync");
    machine.drop(place);
    std::uint64_t wrong = 0;
    for (std::uint64_t seed = 1; seed < kSeeds; ++seed) {
      machine.set_seed(seed);
      run<SumTwiceAll>(machine, {x.data(), sums.data()});
      // Not equal to itself: NaN, from memory that nobody has written.
      if (!std::all_of(sums.begin(), sums.end(), [](float sum) { return sum == 260.0F; })) ++wrong;
    }
    // One order in four lets any warp go on.
    EXPECT_GE(wrong, kSeeds / 2) << place.line;
    if (kUnderThreadSanitizer) {
      EXPECT_GE(take_races(), static_cast<int>(kSeeds) - 1) << place.line;
    }
    machine.drop_nothing();
  }
  // The order of numbers hides nothing under ThreadSanitizer, though its result is right.
  machine.set_seed(0);
  run<SumTwiceAll>(machine, {x.data(), sums.data()});
  EXPECT_EQ(take_races(), 0);
}

struct AddToOne {
  static constexpr int kThreads = 32;
  struct Params {
    float* sum;
    std::uint32_t* count;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  static void run(Thread& t, const Params& p) {
    if (t.index() == 0 && p.sum != nullptr) *p.sum += 1.0F;
    t.atomic_add(p.count, 1U);
  }
};

TEST(Machine, BlocksAreNotOrderedForThreadSanitizer) {
  float sum = 0.0F;
  std::uint32_t count = 0;
  Machine machine;
  run<AddToOne>(machine, {nullptr, &count}, {4});
  EXPECT_EQ(take_races(), 0);
  EXPECT_EQ(count, 128U);
  run<AddToOne>(machine, {&sum, &count}, {4});
  EXPECT_EQ(sum, 4.0F);
  if (kUnderThreadSanitizer) {
    EXPECT_GE(take_races(), 1);
  }
  EXPECT_EQ(count, 256U);
}

struct ShuffleInABranch {
  static constexpr int kThreads = 32;
  struct Params {};
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  static void run(Thread& t, const Params& /*p*/) {
    if (t.lane() == 29) {
      t.shuffle(1, 0);
    } else {
      t.shuffle(2, 0);
    }
  }
};

struct ReturnBeforeTheBarrier {
  static constexpr int kThreads = 64;
  struct Params {};
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  static void run(Thread& t, const Params& /*p*/) {
    if (t.index() % 2 == 0) return;
    t.sync();
  }
};

struct BarriersOfTwoLines {
  static constexpr int kThreads = 64;
  struct Params {};
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  static void run(Thread& t, const Params& /*p*/) {
    if (t.warp() == 0) {
      t.sync();
    } else {
      t.sync();
    }
  }
};

struct SharedBeyondTheLaunch {
  static constexpr int kThreads = 32;
  struct Params {
    std::int64_t asked;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 256; }
  static void run(Thread& t, const Params& p) {
    t.shared<float>(3);
    t.shared<float>(p.asked);
  }
};

struct SharedArraysDiffer {
  static constexpr int kThreads = 32;
  struct Params {};
  static std::int64_t shared_bytes(const Params& /*p*/) { return 256; }
  static void run(Thread& t, const Params& /*p*/) { t.shared<float>(t.lane() == 3 ? 4 : 5); }
};

struct MisalignedPack {
  static constexpr int kThreads = 32;
  struct Params {
    const float* x;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  static void run(Thread& /*t*/, const Params& p) { load_pack<4>(p.x); }
};

TEST(Machine, SaysWhatAKernelDoesWrong) {
  EXPECT_THAT(failure<ShuffleInABranch>({}),
              testing::MatchesRegex("K, block \\(0, 0, 0\\): a diverged warp: lane 29 at shuffle, "
                                    "line [0-9]+, others at shuffle, line [0-9]+"));
  EXPECT_THAT(failure<ReturnBeforeTheBarrier>({}),
              testing::MatchesRegex(".*thread 1 waits for ever at the barrier of "
                                    "machine_test.cc:[0-9]+; 32 threads have ended"));
  EXPECT_THAT(failure<BarriersOfTwoLines>({}),
              testing::HasSubstr("barriers of different lines: thread 0 at machine_test.cc:"));
  EXPECT_THAT(failure<SharedBeyondTheLaunch>({33}),
              testing::HasSubstr("shared arrays of 260 bytes where the launch has 256"));
  EXPECT_THAT(failure<SharedArraysDiffer>({}),
              testing::HasSubstr("shared array 0 has 20 bytes in one thread and 16 in another"));
  alignas(16) const float x[8] = {};
  EXPECT_THAT(failure<MisalignedPack>({x + 1}), testing::HasSubstr("a misaligned pack"));
  // Drawn orders find them, too; and the machine can be used again.
  EXPECT_THAT(failure<ShuffleInABranch>({}, 7), testing::HasSubstr("a diverged warp"));
  Machine machine;
  EXPECT_THROW(run<ReturnBeforeTheBarrier>(machine, {}), InternalError);
  std::vector<float> x128(128, 1.0F);
  float sum = 0.0F;
  run<SumTwice>(machine, {x128.data(), &sum});
  EXPECT_EQ(sum, 260.0F);
}

struct CopyAsynchronously {
  static constexpr int kThreads = 32;
  struct Params {
    const float* x;
    float* y;
    int waits;  // 0: not at all, 1: too late, 2: right, 3: none before the end
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 2 * 32 * 16; }
  static void run(Thread& t, const Params& p) {
    auto* first = t.shared<float>(128);
    auto* second = t.shared<float>(128);
    const int at = 4 * t.lane();
    t.cp_async16(first + at, p.x + at, true);
    t.cp_commit();
    t.cp_async16(second + at, p.x + at, t.lane() != 5);
    t.cp_commit();
    if (p.waits == 3) return;
    if (p.waits == 2) t.cp_wait<1>();
    p.y[at] = first[at];
    t.cp_wait<0>();
    p.y[at + 1] = second[at];
  }
};

TEST(Machine, CopiesArriveAtTheirWait) {
  alignas(16) float x[128];
  std::iota(x, x + 128, 0.0F);
  float y[128] = {};
  Machine machine;
  run<CopyAsynchronously>(machine, {x, y, 2});
  EXPECT_EQ(y[12], 12.0F);
  EXPECT_EQ(y[13], 12.0F);
  EXPECT_EQ(y[21], 0.0F);  // not valid: zeros
  run<CopyAsynchronously>(machine, {x, y, 1});
  EXPECT_TRUE(std::isnan(y[12]));  // read before the wait
  EXPECT_EQ(y[13], 12.0F);
  EXPECT_THAT(failure<CopyAsynchronously>({x, y, 3}),
              testing::HasSubstr("thread 0 ends with 2 copies under way"));
  EXPECT_EQ(take_races(), 0);
}

// D = A B by one warp from shared memory, with rows of 16-byte chunks at chunk ^ (row & 7), or not.
template <typename T>
struct Product16 {
  static constexpr int kThreads = 32;
  struct Params {
    const T* a;  // [16, 64], of which 16 columns are used
    const T* b;  // [64, 16] likewise: B transposed: [8 columns, 16]
    float* d;    // [16, 8]
    bool spread;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 2 * 16 * 128; }
  static T* chunk(T* rows, int row, int column_chunk, bool spread) {
    return rows + row * 64 + 8 * (spread ? column_chunk ^ (row & 7) : column_chunk);
  }
  static void run(Thread& t, const Params& p) {
    T* a = t.shared<T>(16 * 64);
    T* b = t.shared<T>(16 * 64);
    for (int i = t.lane(); i < 16 * 8; i += 32) {
      const int row = i / 8;
      store_pack<8>(chunk(a, row, i % 8, p.spread), load_pack<8>(p.a + 8 * i));
      store_pack<8>(chunk(b, row, i % 8, p.spread), load_pack<8>(p.b + 8 * i));
    }
    t.sync_warp();
    // Matrices 0-3 of A: rows 0-7 and 8-15 of columns 0-7, then of 8-15.
    std::uint32_t af[4];
    t.ldmatrix_x4(af, chunk(a, t.lane() % 16, t.lane() / 16, p.spread));
    std::uint32_t bf[4];
    t.ldmatrix_x4(bf, chunk(b, t.lane() % 8, t.lane() / 8 % 2, p.spread));
    float d[4] = {};
    t.template mma<T>(d, af, bf[0], bf[1]);
    const int g = t.lane() / 4;
    const int q = 2 * (t.lane() % 4);
    for (int i = 0; i < 4; ++i) p.d[(g + 8 * (i / 2)) * 8 + q + i % 2] = d[i];
  }
};

template <typename T>
void multiply16() {
  std::vector<T> a(16 * 64);
  std::vector<T> b(16 * 64);
  // Numbers that are exact in 8 bits of mantissa.
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = round_to<T>(static_cast<float>(static_cast<int>(i * 7 % 31) - 15) / 8.0F);
    b[i] = round_to<T>(static_cast<float>(static_cast<int>(i * 5 % 29) - 14) / 4.0F);
  }
  const auto aligned = [](const std::vector<T>& v) {
    return reinterpret_cast<std::uintptr_t>(v.data()) % 16 == 0;
  };
  ASSERT_TRUE(aligned(a) && aligned(b));
  for (const bool spread : {true, false}) {
    std::vector<float> d(16 * 8, -1.0F);
    Machine machine;
    machine.set_seed(3);
    run<Product16<T>>(machine, {a.data(), b.data(), d.data(), spread});
    for (std::size_t m = 0; m < 16; ++m) {
      for (std::size_t n = 0; n < 8; ++n) {
        float sum = 0.0F;
        for (std::size_t k = 0; k < 16; ++k)
          sum += to_float(a[m * 64 + k]) * to_float(b[n * 64 + k]);
        EXPECT_EQ(d[m * 8 + n], sum) << m << ", " << n;
      }
    }
    // Rows of 128 bytes lie in the same banks, all 8 of a phase.
    EXPECT_EQ(machine.take_conflicts(), spread ? 0 : 2 * 4 * 7);
  }
  EXPECT_EQ(take_races(), 0);
}

TEST(Machine, MultipliesFragmentsOfBf16) { multiply16<bf16>(); }
TEST(Machine, MultipliesFragmentsOfFp16) { multiply16<fp16>(); }

struct WarpOperations {
  static constexpr int kThreads = 64;
  struct Params {
    double* shuffled;
    std::uint32_t* ballots;
    std::uint32_t* transposed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 2 * 512; }
  static void run(Thread& t, const Params& p) {
    p.shuffled[t.index()] = t.shuffle(static_cast<double>(t.index()) + 0.25, 31 - t.lane());
    p.ballots[t.index()] = t.ballot(t.index() % 3 == 0);
    auto* rows = t.shared<std::uint16_t>(512);
    // Row r of matrix m of warp w holds 64 m + 8 r + column.
    for (int i = 0; i < 8; ++i) {
      rows[t.index() * 8 + i] = static_cast<std::uint16_t>(t.lane() * 8 + i);
    }
    std::uint32_t r[4];
    t.ldmatrix_x4_trans(r, rows + 8 * t.index());
    for (int m = 0; m < 4; ++m) p.transposed[t.index() * 4 + m] = r[m];
  }
};

TEST(Machine, ExchangesWithinWarps) {
  std::vector<double> shuffled(64);
  std::vector<std::uint32_t> ballots(64);
  std::vector<std::uint32_t> transposed(256);
  Machine machine;
  machine.set_seed(11);
  run<WarpOperations>(machine, {shuffled.data(), ballots.data(), transposed.data()});
  EXPECT_EQ(shuffled[0], 31.25);
  EXPECT_EQ(shuffled[33], 62.25);
  EXPECT_EQ(ballots[0], 0x49249249U);
  EXPECT_EQ(ballots[40], 0x92492492U);
  // Lane 9 of matrix 2: rows 2, 3 of column 2.
  EXPECT_EQ(transposed[9 * 4 + 2], (2U * 64 + 8 * 2 + 2) | ((2U * 64 + 8 * 3 + 2) << 16));
}

TEST(Machine, ConvertsAsDevices) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const fp16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) continue;
    EXPECT_EQ(fp16_of(value).bits, bits);
    // Between this and the next number of the type: to nearest, a tie to even.
    const float next = to_float(fp16{static_cast<std::uint16_t>(bits + 1)});
    if (std::isinf(next) || std::isnan(next)) continue;
    const float middle = (value + next) / 2;
    EXPECT_EQ(fp16_of(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(fp16_of(std::nextafter(middle, value)).bits, bits);
  }
  EXPECT_EQ(fp16_of(65519.0F).bits, 0x7bff);
  EXPECT_EQ(fp16_of(65520.0F).bits, 0x7c00);
  EXPECT_EQ(fp16_of(std::numeric_limits<float>::quiet_NaN()).bits, 0x7fff);
  EXPECT_EQ(bf16_of(1.00390625F).bits, 0x3f80);  // a tie
  EXPECT_EQ(bf16_of(1.01171875F).bits, 0x3f82);
  EXPECT_EQ(pack_bf16(1.0F, 2.0F), 0x40003f80U);
}

struct Overrun {
  static constexpr int kThreads = 32;
  struct Params {
    float* x;
    bool in_shared;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 128; }
  static void run(Thread& t, const Params& p) {
    auto* shared = t.shared<float>(31);
    (p.in_shared ? shared : p.x)[t.index()] = 1.0F;
  }
};

// AddressSanitizer ends the program at the line.
TEST(MachineDeathTest, OverrunsAreSeen) {
  std::vector<float> x(31);
  Machine machine;
  if (kUnderAddressSanitizer) {
    EXPECT_DEATH(run<Overrun>(machine, {x.data(), false}), "heap-buffer-overflow");
    EXPECT_DEATH(run<Overrun>(machine, {x.data(), true}), "use-after-poison");
  } else if (!kUnderThreadSanitizer) {
    EXPECT_THAT(failure<Overrun>({x.data(), true}),
                testing::HasSubstr("something was written beyond shared array 0"));
  }
}

struct Small {
  static constexpr int kThreads = 32;
  struct Params {
    const float* x;
    float* y;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  static void run(Thread& t, const Params& p) { p.y[t.lane()] = p.x[t.lane()] * 0.5F; }
};

TEST(Machine, SubnormalsAreZeroInKernelsAndNotBehindThem) {
  std::vector<float> x(32, 1e-39F);
  x[1] = 2e-38F;
  x[2] = 4e-38F;
  std::vector<float> y(32, -1.0F);
  Machine machine;
  run<Small>(machine, {x.data(), y.data()});
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[1], 0.0F);
  EXPECT_EQ(y[2], 2e-38F);
  volatile float small = 1e-39F;
  EXPECT_GT(small * 0.5F, 0.0F);
}

}  // namespace
}  // namespace phalanx::cuda
