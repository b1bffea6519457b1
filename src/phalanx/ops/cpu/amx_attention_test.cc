// Attention of family `amx2`: near the reference, the same bits for any number of threads, the
// instructions as their twin in plain C++, and on every machine the bits that were written down.

#include "phalanx/ops/cpu/amx_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/hash.h"
#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {
namespace {

// Fused attention's rows of the case table.
std::vector<ops::Case> cases() {
  std::vector<ops::Case> rows;
  for (const ops::Case& row : ops::make_case_table().tests) {
    if (row.op == "attention_forward" || row.op == "attention_backward") rows.push_back(row);
  }
  return rows;
}

std::unique_ptr<Backend> tiles(int threads) {
  return make_cpu_backend(threads, ProductPrecision::kAmx);
}

// A backend with the twin, whatever the processor has.
std::unique_ptr<Backend> twin(int threads) {
  const ForcedTarget target(std::min(active_target(), Target::kAvx512));
  return tiles(threads);
}

TEST(AmxAttention, MatchesTheReference) {
  const auto backend = tiles(2);
  for (const ops::Case& row : cases()) {
    EXPECT_EQ(ops::compare_with_reference(row, DType::kBF16, {*backend}), "");
  }
}

TEST(AmxAttention, BitsDoNotDependOnThreads) {
  const auto one = tiles(1);
  const auto five = tiles(5);
  for (const ops::Case& row : cases()) {
    EXPECT_EQ(ops::compare_bits(row, DType::kBF16, {*one}, {*five}), "");
  }
}

TEST(AmxAttention, OfTheTwinHasTheBitsOfTheInstructions) {
  if (!has_products(ProductPrecision::kAmx)) GTEST_SKIP() << "no AMX";
  for (const ops::Case& row : cases()) {
    EXPECT_EQ(ops::compare_bits(row, DType::kBF16, {*tiles(1)}, {*twin(1)}), "");
  }
}

// Other storage has no products of bf16.
TEST(AmxAttention, IsForBf16StorageOnly) {
  const auto fp32 = make_cpu_backend(1, ProductPrecision::kFp32);
  int different = 0;
  for (const ops::Case& row : cases()) {
    EXPECT_EQ(ops::compare_bits(row, DType::kF32, {*fp32}, {*tiles(1)}), "");
    EXPECT_EQ(ops::compare_bits(row, DType::kF16, {*fp32}, {*tiles(1)}), "");
    different += ops::compare_bits(row, DType::kBF16, {*fp32}, {*tiles(1)}).empty() ? 0 : 1;
  }
  EXPECT_GT(different, 0);
}

// A NaN in a key reaches the queries that see it and no other.
TEST(AmxAttention, NanReachesItsRows) {
  constexpr std::int64_t kRows = 150, kWidth = 40, kKey = 70;
  Arena arena("operands", 1 << 20), workspace("workspace", 8 << 20);
  ops::AttentionForward op;
  const auto ones = [&] {
    const Tensor tensor = arena.allocate(DType::kBF16, {kRows, 1, 1, kWidth});
    for (bfloat16& x : tensor.span<bfloat16>()) x = to_bfloat16(1.0F);
    return tensor;
  };
  op.in.query = ones();
  op.in.key = ones();
  op.in.value = ones();
  op.in.mask.causal = true;
  const RowCoordinates rows{arena.allocate(DType::kI64, {kRows, 1}),
                            arena.allocate(DType::kI32, {kRows, 1}),
                            arena.allocate(DType::kI32, {kRows, 1})};
  for (std::int32_t i = 0; i < kRows; ++i) {
    rows.sample.as<std::int64_t>()[i] = 0;
    rows.position.as<std::int32_t>()[i] = i;
    rows.document.as<std::int32_t>()[i] = 0;
  }
  op.in.query_rows = op.in.key_rows = rows;
  op.in.key.as<bfloat16>()[kKey * kWidth] = to_bfloat16(std::nanf(""));
  op.out = ones();
  op.lse = arena.allocate(DType::kF32, {1, 1, kRows});
  for (const auto& backend : {tiles(1), twin(1)}) {
    Context context{.backend = *backend, .workspace = workspace};
    ops::attention_forward(context, op);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const float out = to_float(op.out.as<bfloat16>()[i * kWidth]);
      ASSERT_EQ(std::isnan(out), i >= kKey) << "query " << i;
      if (i < kKey) {
        ASSERT_EQ(out, 1.0F) << "query " << i;
      }
    }
  }
}

// The bits of the family must not change without a new name for it.
TEST(AmxAttention, HasTheBitsThatWereWrittenDown) {
  if (active_target() == Target::kScalar) {
    GTEST_SKIP() << "logarithms of target scalar have no fused multiply-add";
  }
  std::string all, parts;
  for (const ops::Case& row : cases()) {
    const auto bits = ops::output_bits(row, DType::kBF16, {*twin(1)});
    const bool part = row.description.find("part") != std::string::npos;
    (part ? parts : all) +=
        std::string_view(reinterpret_cast<const char*>(bits.data()), bits.size());
  }
  EXPECT_EQ(xxh3(all), 4601934487923616423U);
  EXPECT_EQ(xxh3(parts), 15157152630484904645U);
}

}  // namespace
}  // namespace phalanx::cpu
