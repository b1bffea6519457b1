#include "phalanx/ops/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cross_entropy.h"
#include "phalanx/ops/embedding.h"
#include "phalanx/ops/permute.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/ops/rotary.h"

namespace phalanx::ops {
namespace {

using ::testing::HasSubstr;

// As a kernel does, in any order.
void note(FaultWords& words, const Fault& fault) {
  const std::uint64_t key = (fault.op << 24) | static_cast<std::uint64_t>(fault.row);
  const auto low = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  words[0] =
      std::min(words[0], (std::uint64_t{fault.op} << 40) | static_cast<std::uint64_t>(fault.row));
  words[1] = std::min(words[1], (key << 32) | low(fault.value));
  words[2] = std::min(words[2], (key << 32) | low(fault.limit));
}

TEST(Faults, OfSeveralOneStaysWhole) {
  constexpr std::size_t kLoss = number_in<CrossEntropy>(OpList());
  constexpr std::size_t kTurn = number_in<Rotate>(OpList());
  static_assert(kTurn < kLoss);
  const std::vector<Fault> faults = {
      {kLoss, 1, 9, 8}, {kTurn, 7, -1, 5}, {kTurn, 3, 6, 5}, {kLoss, 0, -3, 8}, {kTurn, 4, 5, 5}};
  FaultWords words = kNoFault;
  EXPECT_EQ(fault_in(words), std::nullopt);
  note(words, faults[0]);
  EXPECT_EQ(fault_in(words), faults[0]);
  note(words, faults[1]);
  EXPECT_EQ(fault_in(words), faults[1]);
  for (const Fault& fault : faults) note(words, fault);
  EXPECT_EQ(fault_in(words), faults[2]);
  EXPECT_EQ(text_of(faults[2]), "rotate: position 6 of a table of 5");
}

TEST(Faults, AnOpThatFindsNoneHasNoText) {
  EXPECT_THAT(error_of<InternalError>([] { text_of({.op = 0, .row = 2}); }),
              HasSubstr("row 2 of op 0, which finds none"));
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
  const auto sort = [&] {
    sort_pairs(context, {.offsets = zeros(DType::kI32, {6}),
                         .pair_of_row = zeros(DType::kI32, {4}),
                         .row_of_pair = zeros(DType::kI32, {2, 2}),
                         .chosen = ids});
  };
  EXPECT_EQ(text_with(-2, sort), "no error") << "the pair was dropped";
  EXPECT_THAT(text_with(5, sort), HasSubstr("sort_pairs: expert 5 of 5 (row 3)"));
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
