// Family `amx2`: the instructions and their twin in plain C++ give the same bits, on every machine
// the twin gives those that were written down, and they depend on shapes alone.

#include "phalanx/ops/cpu/amx_product.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_tiles.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx::cpu {
namespace {

// Memory on a line's border, filled with bytes that are NaN as numbers.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(bytes), lines_(ceil_div(bytes, 64) + 1) {
    std::memset(lines_.data(), 0xff, lines_.size() * sizeof(Line));
  }
  std::byte* data() { return lines_.data()->bytes; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  std::string_view text() {
    return {reinterpret_cast<const char*>(data()), static_cast<std::size_t>(bytes_)};
  }
  bool wrote_beyond() { return data()[bytes_] != std::byte{0xff}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::int64_t bytes_;
  std::vector<Line> lines_;
};

// Numbers of many sizes that are the same on every machine: (-1, 1) times 2^-r, r below `range`.
Memory numbers(std::int64_t count, std::uint32_t seed, int range = 1, int shift = 0) {
  Memory memory(count * 2);
  std::uint32_t state = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    const float x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
    const int exponent = static_cast<int>((state >> 7U) % static_cast<unsigned>(range));
    memory.as<bfloat16>()[i] = to_bfloat16(std::ldexp(x, shift - exponent));
  }
  return memory;
}

struct Size {
  std::int64_t rows, n, k;
  std::string name() const { return fmt::format("{}x{}x{}", rows, n, k); }
};

struct Problem {
  Size size;
  Memory x, dy, weight;

  explicit Problem(const Size& s, int range = 1, int shift = 0)
      : size(s),
        x(numbers(s.rows * s.k, 1, range, shift)),
        dy(numbers(s.rows * s.n, 2, range, shift)),
        weight(numbers(s.n * s.k, 3, range, shift)) {}
};

struct Device {
  int threads = 1;
  Target target = Target::kScalar;  // with a lower one than kAmx, the twin runs
};

// The bytes of C.
std::string run(const Device& with, const MatrixProduct& product, Memory& c) {
  CpuDevice device{.threads = with.threads, .products = ProductPrecision::kAmx};
  device.processor.target = with.target;
  Memory workspace(workspace_bytes_of(device, product));
  multiply(device, product, workspace.data());
  EXPECT_FALSE(workspace.wrote_beyond());
  EXPECT_FALSE(c.wrote_beyond());
  return std::string(c.text());
}

std::string forward(Problem& p, const Device& device, bool bias = false) {
  const auto& [rows, n, k] = p.size;
  Memory y(rows * n * 2);
  MatrixProduct product{.m = rows,
                        .n = n,
                        .k = k,
                        .a = {p.x.data(), DType::kBF16, k},
                        .b = {p.weight.data(), DType::kBF16, k, true},
                        .epilogue = {.c = {y.data(), DType::kBF16, n}}};
  if (bias) {
    product.epilogue.has_bias = true;
    product.epilogue.bias = p.dy.data();
    product.epilogue.bias_dtype = DType::kBF16;
  }
  return run(device, product, y);
}

std::string input_gradient(Problem& p, const Device& device) {
  const auto& [rows, n, k] = p.size;
  Memory dx(rows * k * 2);
  return run(device,
             {.m = rows,
              .n = k,
              .k = n,
              .a = {p.dy.data(), DType::kBF16, n},
              .b = {p.weight.data(), DType::kBF16, k},
              .epilogue = {.c = {dx.data(), DType::kBF16, k}}},
             dx);
}

std::string weight_gradient(Problem& p, const Device& device) {
  const auto& [rows, n, k] = p.size;
  Memory dweight(n * k * 4), dbias(n * 4);
  for (std::int64_t i = 0; i < n * k; ++i) {
    dweight.as<float>()[i] = 0.25F * static_cast<float>(i % 7);
  }
  const std::string product =
      run(device,
          {.m = n,
           .n = k,
           .k = rows,
           .a = {p.dy.data(), DType::kBF16, n, true},
           .b = {p.x.data(), DType::kBF16, k},
           .epilogue = {.c = {dweight.data(), DType::kF32, k}, .accumulate = true},
           .sums_rows = true,
           .row_sums = dbias.as<float>(),
           .accumulate_row_sums = false},
          dweight);
  EXPECT_FALSE(dbias.wrote_beyond());
  return product + std::string(dbias.text());
}

std::string all_passes(Problem& p, const Device& device) {
  return forward(p, device) + input_gradient(p, device) + weight_gradient(p, device);
}

// Around the borders of tiles, steps, blocks of depth, and of the choices of a plan.
constexpr Size kSizes[] = {{1, 1, 1},     {1, 70, 33},  {5, 47, 100}, {32, 32, 32},  {33, 65, 31},
                           {64, 96, 128}, {70, 40, 65}, {3, 600, 17}, {40, 20, 1100}};

TEST(AmxProducts, OfTheTwinHaveTheBitsOfTheInstructions) {
  if (!has_products(ProductPrecision::kAmx)) GTEST_SKIP() << "no AMX";
  for (const Size& size : kSizes) {
    for (const int range : {1, 40}) {
      Problem problem(size, range);
      EXPECT_TRUE(all_passes(problem, {.target = Target::kScalar}) ==
                  all_passes(problem, {.target = Target::kAmx}))
          << size.name() << ", range " << range;
    }
  }
  // Long enough for several blocks of depth, of every kind.
  Problem forward_blocks({3, 40, 3100}), input_blocks({40, 1100, 33}),
      weight_blocks({1100, 35, 40});
  EXPECT_TRUE(forward(forward_blocks, {}, true) ==
              forward(forward_blocks, {.target = Target::kAmx}, true));
  EXPECT_TRUE(input_gradient(input_blocks, {}) ==
              input_gradient(input_blocks, {.target = Target::kAmx}));
  EXPECT_TRUE(weight_gradient(weight_blocks, {}) ==
              weight_gradient(weight_blocks, {.target = Target::kAmx}));
}

// Sums and products below the smallest normal number, above the largest, and around it.
TEST(AmxProducts, OfTheTwinHaveTheInstructionsSubnormalsAndInfinities) {
  if (!has_products(ProductPrecision::kAmx)) GTEST_SKIP() << "no AMX";
  for (const int shift : {-126, -120, -70, -62, -60, -58, 60, 63, 64}) {
    for (const int range : {1, 8, 30}) {
      Problem problem({40, 33, 70}, range, shift);
      EXPECT_TRUE(all_passes(problem, {.target = Target::kScalar}) ==
                  all_passes(problem, {.target = Target::kAmx}))
          << "2^" << shift << ", range " << range;
    }
  }
}

// On every machine: the bits of the family must not change without a new name for it.
TEST(AmxProducts, HaveTheBitsThatWereWrittenDown) {
  Problem small({33, 65, 70}), deep({5, 40, 1100}), few({2, 40, 64}), long_sums({1100, 33, 40});
  EXPECT_EQ(xxh3(all_passes(small, {})), 14183700603351693651U);
  EXPECT_EQ(xxh3(forward(deep, {}, true)), 15835271041131997920U);
  EXPECT_EQ(xxh3(forward(few, {})), 5600556414285846811U);
  EXPECT_EQ(xxh3(weight_gradient(long_sums, {})), 4154112106062716223U);
}

TEST(AmxProducts, BitsDoNotDependOnThreads) {
  const Target target = has_products(ProductPrecision::kAmx) ? Target::kAmx : Target::kScalar;
  const bool is_fast = target == Target::kAmx;
  for (const Size& size :
       {Size{70, 200, 65}, Size{300, 90, 1100}, Size{2, 600, 40}, Size{1100, 130, 70}}) {
    if (!is_fast && size.rows * size.n * size.k > (1 << 22)) continue;
    Problem problem(size);
    const std::string one = all_passes(problem, {.threads = 1, .target = target});
    for (const int threads : {2, 3, 5, 16}) {
      EXPECT_TRUE(all_passes(problem, {.threads = threads, .target = target}) == one)
          << size.name() << ", " << threads << " threads";
    }
  }
}

// A token's numbers are the same in every batch, also where a plan swaps the operands.
TEST(AmxProducts, BitsOfARowDoNotDependOnTheOtherRows) {
  const Target target = has_products(ProductPrecision::kAmx) ? Target::kAmx : Target::kScalar;
  Problem many({70, 320, 100}), one({1, 320, 100}), few({35, 320, 100});
  const std::string rows = forward(many, {.target = target}, true);
  EXPECT_TRUE(rows.starts_with(forward(one, {.target = target}, true)));
  EXPECT_TRUE(rows.starts_with(forward(few, {.target = target}, true)));
}

}  // namespace
}  // namespace phalanx::cpu
