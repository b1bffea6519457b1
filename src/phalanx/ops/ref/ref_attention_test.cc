// Finite differences cannot show which keys a query sees or which head reads which group. Queries
// are 0, so all visible keys have equal weight and the output is the mean of their values.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "phalanx/ops/cases/operands.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

struct Results {
  std::vector<double> out, lse, unfused_out;
};

class RefAttention : public testing::Test {
 protected:
  RowCoordinates rows(const std::vector<double>& position, const std::vector<double>& document) {
    const Shape shape{static_cast<std::int64_t>(position.size()), 1};
    return {.sample = operands_.filled(DType::kI64, shape, 1),
            .position = operands_.values(DType::kI32, shape, position),
            .document = operands_.values(DType::kI32, shape, document)};
  }

  // One query row per position; values[key][group] in row-major order.
  Results attend(AttentionMask mask, const RowCoordinates& queries, const RowCoordinates& keys,
                 const std::vector<double>& values, std::int64_t heads = 1,
                 std::int64_t groups = 1) {
    const std::int64_t sq = queries.position.shape[0];
    const std::int64_t sk = keys.position.shape[0];
    AttentionInputs in;
    in.query = operands_.filled(DType::kF64, {sq, 1, heads, 1}, 0.0);
    in.key = operands_.uniform({sk, 1, groups, 1});
    in.value = operands_.values(DType::kF64, {sk, 1, groups, 1}, values);
    in.mask = mask;
    in.query_rows = queries;
    in.key_rows = keys;
    const AttentionForward fused{.out = operands_.output({sq, 1, heads, 1}),
                                 .lse = operands_.output({1, heads, sq}),
                                 .in = in};
    attention_forward(context_, fused);
    const UnfusedAttentionForward unfused{.out = operands_.output({sq, 1, heads, 1}),
                                          .probabilities = operands_.output({1, heads, sq, sk}),
                                          .in = in};
    unfused_attention_forward(context_, unfused);
    return {ref::read(fused.out).values, ref::read(fused.lse).values,
            ref::read(unfused.out).values};
  }

  static void expect_results(const Results& got, const std::vector<double>& out,
                             const std::vector<double>& visible) {
    ASSERT_EQ(got.out.size(), out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(got.out[i], out[i], 1e-14) << i;
      EXPECT_NEAR(got.unfused_out[i], out[i], 1e-14) << i;
      if (visible[i] == 0.0) {
        EXPECT_EQ(got.lse[i], -std::numeric_limits<double>::infinity()) << i;
      } else {
        EXPECT_NEAR(got.lse[i], std::log(visible[i]), 1e-14) << i;
      }
    }
  }

  Arena memory_{"operands", 1 << 20};
  Arena workspace_{"workspace", 1 << 20};
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Context context_{.backend = *backend_, .workspace = workspace_};
  Operands operands_{memory_, DType::kF64, context_};
};

TEST_F(RefAttention, CausalMaskComparesPositions) {
  const auto keys = rows({4, 1, 3, 2}, {0, 0, 0, 0});
  expect_results(attend({.causal = true}, rows({2, 4, 0}, {0, 0, 0}), keys, {8, 4, 2, 1}),
                 {2.5, 3.75, 0}, {2, 4, 0});
}

TEST_F(RefAttention, FullMaskSeesEveryKeyExceptPadding) {
  const auto keys = rows({0, 1, 2}, {0, -1, 5});
  expect_results(attend({}, rows({0, 1}, {0, -1}), keys, {8, 4, 2}), {5, 5}, {2, 2});
}

TEST_F(RefAttention, QueriesSeeOnlyTheirDocument) {
  const auto both = rows({0, 1, 2, 3, 4}, {0, 0, 1, 1, -1});
  expect_results(attend({.documents = true}, both, both, {1, 2, 4, 8, 16}), {1.5, 1.5, 6, 6, 0},
                 {2, 2, 2, 2, 0});
  expect_results(attend({.causal = true, .documents = true}, both, both, {1, 2, 4, 8, 16}),
                 {1, 1.5, 4, 6, 0}, {1, 2, 1, 2, 0});
}

TEST_F(RefAttention, NeighbouringHeadsShareAGroup) {
  const auto one = rows({0}, {0});
  expect_results(attend({}, one, one, {3, 7}, 4, 2), {3, 3, 7, 7}, {1, 1, 1, 1});
}

// Dropout of head h uses site + h, query position and key position.
TEST_F(RefAttention, DropoutFollowsTheCoordinates) {
  Dropout dropout = case_dropout(0.5);
  dropout.site += 3;  // the first head
  AttentionInputs in;
  in.query = operands_.filled(DType::kF64, {1, 1, 2, 1}, 0.0);
  in.key = operands_.uniform({1, 1, 1, 1});
  in.value = operands_.filled(DType::kF64, {1, 1, 1, 1}, 1.0);
  in.dropout = dropout;
  for (int position = 0; position < 20; ++position) {
    in.query_rows = rows({100.0 + position}, {0});
    in.key_rows = rows({7.0 + position}, {0});
    const AttentionForward op{
        .out = operands_.output({1, 1, 2, 1}), .lse = operands_.output({1, 2, 1}), .in = in};
    attention_forward(context_, op);
    for (std::uint32_t head = 0; head < 2; ++head) {
      const double expected =
          ref::dropout_multiplier(dropout, dropout.site + head, 1, 100 + position, 7 + position);
      EXPECT_EQ(ref::read(op.out).values[head], expected) << position;
    }
  }
}

}  // namespace
}  // namespace phalanx::ops
