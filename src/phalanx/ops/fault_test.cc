#include "phalanx/ops/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cross_entropy.h"
#include "phalanx/ops/embedding.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/ops/rotary.h"

namespace phalanx::ops {
namespace {

using ::testing::HasSubstr;

TEST(Faults, AWordKeepsTheSmallestRowWithItsValue) {
  FaultTable table;
  const std::size_t small = table.word_of(FaultKind::kTarget, 5);
  const std::size_t positions = table.word_of(FaultKind::kPosition, 5);
  EXPECT_NE(small, positions);
  EXPECT_EQ(table.word_of(FaultKind::kTarget, 5), small);
  EXPECT_NE(table.word_of(FaultKind::kTarget, 6), small);
  std::array<std::uint64_t, FaultTable::kWords> words{};
  words.fill(kNoFault);
  EXPECT_EQ(table.first_fault(words), std::nullopt);
  // A negative value is not smaller than that of an earlier row.
  words[positions] = std::min(fault_word(7, -1), fault_word(3, 9));
  EXPECT_EQ(table.first_fault(words), (Fault{FaultKind::kPosition, 3, 9, 5}));
  words[positions] = fault_word(7, -1);
  EXPECT_EQ(table.first_fault(words), (Fault{FaultKind::kPosition, 7, -1, 5}));
  words[small] = fault_word(8, 5);
  EXPECT_EQ(table.first_fault(words), (Fault{FaultKind::kTarget, 8, 5, 5}));
}

TEST(Faults, ThereAreAsManyWordsAsTheTableSays) {
  FaultTable table;
  for (std::size_t i = 0; i < FaultTable::kWords; ++i) {
    EXPECT_EQ(table.word_of(FaultKind::kTarget, static_cast<std::int64_t>(i)), i);
  }
  EXPECT_THAT(error_of([&] { table.word_of(FaultKind::kPosition, 1); }), HasSubstr("more than 64"));
}

// Each op with one bad number in row 3 of [2, 2] rows.
void expect_texts(std::unique_ptr<Backend> backend) {
  Arena arena("test", std::int64_t{1} << 16);
  Arena workspace("workspace", std::int64_t{1} << 20);
  Context context{.backend = *backend, .workspace = workspace};
  const auto zeros = [&](DType dtype, const Shape& shape) { return arena.allocate(dtype, shape); };
  const Tensor ids = zeros(DType::kI32, {2, 2});
  const Tensor samples = zeros(DType::kI64, {2, 2});
  const Tensor x = zeros(DType::kF32, {2, 2, 4});
  const Tensor table = zeros(DType::kF32, {5, 4});
  const auto text_with = [&](std::int32_t value, const auto& call) {
    ids.as<std::int32_t>()[3] = value;
    return error_of<InternalError>(call);
  };
  const auto add = [&] {
    add_positions(context, {.out = x,
                            .x = x,
                            .table = table,
                            .ids = ids,
                            .dropout = {},
                            .rows = {.sample = samples, .position = ids, .document = ids}});
  };
  EXPECT_THAT(text_with(5, add), HasSubstr("add_positions: position 5 of a table of 5 (row 3)"));
  const Tensor heads = x.reshape({2, 2, 1, 4});
  const auto turn = [&] {
    rotate(context, {.y = heads, .x = heads, .position = ids, .table = table});
  };
  EXPECT_THAT(text_with(-2, turn), HasSubstr("rotate: position -2 of a table of 5 (row 3)"));
  const Tensor logits = zeros(DType::kF32, {4, 8});
  CrossEntropy loss{.loss = zeros(DType::kF32, {4}),
                    .dlogits = {},
                    .logits = logits,
                    .targets = ids.reshape({4}),
                    .mask = zeros(DType::kF32, {4}),
                    .seed = {},
                    .vocabulary = 7};
  const auto lose = [&] { cross_entropy(context, loss); };
  EXPECT_EQ(text_with(7, lose), "no error") << "a masked row has a loss";
  loss.mask = {};
  EXPECT_THAT(text_with(7, lose),
              HasSubstr("cross_entropy: target 7 of a vocabulary of 7 (row 3)"));
}

TEST(Faults, TheCpuAndTheReferenceSayTheSame) {
  expect_texts(make_cpu_backend(1, cpu::ProductPrecision::kFp32));
  expect_texts(make_ref_backend());
}

}  // namespace
}  // namespace phalanx::ops
