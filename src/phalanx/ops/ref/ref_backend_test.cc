// Ops without a finite-difference test, against values computed by hand.

#include "phalanx/ops/ref/ref_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "phalanx/ops/cases/segment_rows.h"
#include "phalanx/ops/ref/access.h"

namespace phalanx::ops {
namespace {

class RefBackend : public testing::Test {
 protected:
  Tensor vector(DType dtype, const std::vector<double>& values) {
    return operands_.values(dtype, {static_cast<std::int64_t>(values.size())}, values);
  }
  Tensor full(const std::vector<double>& values) { return vector(DType::kF64, values); }
  Tensor one(double value) { return full({value}); }
  // Rows of learning rate and decay.
  Tensor settings(const std::vector<double>& values) {
    return full(values).reshape({std::ssize(values) / 2, 2});
  }
  static void expect_near(const Tensor& tensor, const std::vector<double>& expected,
                          double tolerance = 1e-14) {
    const auto got = ref::read(tensor).values;
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
  }

  Arena memory_{"operands", 1 << 20};
  Arena workspace_{"workspace", 1 << 20};
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Context context_{.backend = *backend_, .workspace = workspace_};
  Operands operands_{memory_, DType::kF64, context_};
};

TEST_F(RefBackend, LossSeed) {
  const LossSeed constant{.seed = one(9), .loss_scale = one(1024), .mask = {}, .factor = 1.0 / 8};
  loss_seed(context_, constant);
  expect_near(constant.seed, {128});
  const LossSeed mean{one(9), one(1024), full({1, 0, 1, 1, 1}), 1.0 / 8};
  loss_seed(context_, mean);
  expect_near(mean.seed, {32});
  const LossSeed nothing{one(9), one(1024), full({0, 0}), 1.0 / 8};
  loss_seed(context_, nothing);
  expect_near(nothing.seed, {0});
}

TEST_F(RefBackend, LossAccumulateAdds) {
  const LossAccumulate op{one(10), one(2), full({1.5, 2.5, 4}), full({1, 0, 0.5})};
  loss_accumulate(context_, op);
  expect_near(op.sum, {13.5});
  expect_near(op.count, {3.5});
}

// Two tokens of probability 3/4 and 1/4, and one column of padding.
TEST_F(RefBackend, CrossEntropy) {
  const CrossEntropy op{
      .loss = full({9, 9}),
      .dlogits = operands_.output({2, 3}),
      .logits = operands_.values(DType::kF64, {2, 3},
                                 std::vector{std::log(3.0), 0.0, 1e9, 7.0, 7.0, 1e9}),
      .targets = vector(DType::kI32, {0, 1}),
      .mask = full({1, 0.5}),
      .seed = one(8),
      .vocabulary = 2};
  cross_entropy(context_, op);
  expect_near(op.loss, {std::log(4.0 / 3.0), std::numbers::ln2});
  expect_near(op.dlogits, {-2, 2, 0, 2, -2, 0});
}

// Two rows of the published normalisation; the values were computed in double elsewhere.
TEST_F(RefBackend, RmsNorm) {
  const Shape shape{2, 4};
  const auto rows = [&](const std::vector<double>& values) {
    return operands_.values(DType::kF64, shape, values);
  };
  for (const bool zero_centred : {false, true}) {
    const double centre = zero_centred ? 1.0 : 0.0;
    const NormForward forward{.y = operands_.output(shape),
                              .rstd = operands_.output(DType::kF64, {2}),
                              .x = rows({1, -2, 3, 0.5, 0.01, 0.02, -0.03, 0.04}),
                              .weight = full({1 - centre, 0.5 - centre, 2 - centre, -1 - centre}),
                              .zero_centred = zero_centred};
    norm_forward(context_, forward);
    expect_near(forward.rstd, {0.529812199, 36.2738125}, 1e-7);
    expect_near(forward.y.slice(0, 0, 1), {0.529812199, -0.529812199, 3.1788732, -0.2649061}, 1e-8);
    const NormBackward backward{.dx = operands_.output(shape),
                                .dweight = operands_.output(DType::kF64, {4}),
                                .dy = rows({0.1, -0.2, 0.3, 0.4, 1, 0, -1, 2}),
                                .x = forward.x,
                                .rstd = forward.rstd,
                                .weight = forward.weight,
                                .zero_centred = zero_centred};
    norm_backward(context_, backward);
    expect_near(backward.dx.slice(0, 0, 1),
                {-0.0176602083, 0.0883016366, 0.105963035, -0.247245594}, 1e-9);
    expect_near(backward.dx.slice(0, 1, 1), {37.46703, 2.38643503, -76.1272776, -67.7747549}, 1e-5);
    expect_near(backward.dweight, {0.415719345, 0.21192488, 1.56504535, 3.00786744}, 1e-8);
  }
}

TEST_F(RefBackend, SwiGlu) {
  const GatedActivationForward forward{
      .y = operands_.output({1, 5}),
      .x = operands_.values(DType::kF64, {1, 10},
                            std::vector{-2.0, -0.5, 0.0, 1.0, 8.0, 0.5, -1.0, 2.0, 3.0, -0.25}),
      .bias = {},
      .kind = ActivationKind::kSilu};
  gated_activation_forward(context_, forward);
  expect_near(forward.y, {-0.119202922, 0.188770334, 0, 2.19317574, -1.9993293}, 1e-8);
  const GatedActivationBackward backward{
      .dx = operands_.output({1, 10}),
      .dy = operands_.values(DType::kF64, {1, 5}, std::vector{1.0, 2.0, -1.0, 0.5, 1.0}),
      .x = forward.x,
      .bias = {},
      .kind = ActivationKind::kSilu};
  gated_activation_backward(context_, backward);
  expect_near(backward.dx,
              {-0.0453921244, -0.520077625, -1, 1.39150577, -0.250586638, -0.238405844,
               -0.377540669, 0, 0.365529289, 7.9973172},
              1e-8);
}

TEST_F(RefBackend, ReluAndItsSquare) {
  const Tensor x = operands_.values(DType::kF64, {1, 4}, std::vector{-2.0, 0.0, 0.5, 3.0});
  const Tensor y = operands_.output({1, 4}), dx = operands_.output({1, 4});
  const Tensor dy = operands_.filled(DType::kF64, {1, 4}, 2.0);
  const auto run = [&](ActivationKind kind) {
    bias_activation_forward(context_, BiasActivationForward{y, x, {}, kind});
    bias_activation_backward(context_, BiasActivationBackward{dx, dy, x, {}, kind});
  };
  run(ActivationKind::kRelu);
  expect_near(y, {0, 0, 0.5, 3});
  expect_near(dx, {0, 0, 2, 2});
  run(ActivationKind::kSquaredRelu);
  expect_near(y, {0, 0, 0.25, 9});
  expect_near(dx, {0, 0, 2, 12});
}

TEST_F(RefBackend, AdamTakesTwoSteps) {
  const CaseTableRows rows = case_segments(operands_, {{.begin = 5, .count = 2}});
  AdamSegments op{.weight = full({1, -2}),
                  .storage = vector(DType::kBF16, {0, 0}),
                  .gradient = full({4, -8}),
                  .exp_avg = full({0, 0}),
                  .exp_avg_sq = full({0, 0}),
                  .table = rows.table,
                  .first = 5,
                  .settings = settings({0.1, 0.25}),
                  .corrections = full({2, 2}),  // 1 / (1 - 0.5), 1 / sqrt(1 - 0.75)
                  .factor = one(0.5),
                  .skip = one(0),
                  .beta1 = 0.5,
                  .beta2 = 0.75,
                  .epsilon = 0.0};
  // g = (2, -4); the first corrected update is the sign of g.
  adam_segments(context_, op);
  expect_near(op.exp_avg, {1, -2});
  expect_near(op.exp_avg_sq, {1, 4});
  expect_near(op.weight, {1 - 0.1 * 1.25, -2 + 0.1 * 1.5});
  expect_near(op.storage, {0.875, -1.8515625});
  // g = (-2, 0): m = (-0.5, -1), v = (1.75, 3); corrections 1 - 0.25 and 1 - 0.5625.
  op.gradient = full({-4, 0});
  const auto corrections = adam_corrections(0.5, 0.75, 2);
  op.corrections = full({corrections[0], corrections[1]});
  adam_segments(context_, op);
  expect_near(op.exp_avg, {-0.5, -1});
  expect_near(op.exp_avg_sq, {1.75, 3});
  const double first = (-0.5 / 0.75) / std::sqrt(1.75 / 0.4375);
  const double second = (-1 / 0.75) / std::sqrt(3 / 0.4375);
  expect_near(op.weight,
              {0.875 - 0.1 * (first + 0.25 * 0.875), -1.85 - 0.1 * (second - 0.25 * 1.85)});
}

TEST_F(RefBackend, SgdTakesTwoSteps) {
  const CaseTableRows rows = case_segments(operands_, {{.count = 2}});
  SgdSegments op{.weight = full({1, -2}),
                 .storage = vector(DType::kBF16, {0, 0}),
                 .gradient = full({4, -8}),
                 .momentum_buffer = full({0, 0}),
                 .table = rows.table,
                 .settings = settings({0.25, 0.25}),
                 .factor = one(0.5),
                 .skip = one(0),
                 .momentum = 0.5};
  // g = (2, -4) and the decay of (1, -2).
  sgd_segments(context_, op);
  expect_near(op.momentum_buffer, {2.25, -4.5});
  expect_near(op.weight, {1 - 0.5625, -2 + 1.125});
  expect_near(op.storage, {0.4375, -0.875});
  op.gradient = full({-4, 0});
  sgd_segments(context_, op);
  expect_near(op.momentum_buffer, {1.125 - 2 + 0.109375, -2.25 - 0.21875});
  expect_near(op.weight, {0.4375 + 0.25 * 0.765625, -0.875 + 0.25 * 2.46875});
  op.momentum_buffer = {};
  op.momentum = 0.0;
  op.weight = full({1, -2});
  sgd_segments(context_, op);
  expect_near(op.weight, {1 + 0.25 * 1.75, -2 + 0.25 * 0.5});
}

// What lies in front of, between and behind segments stays.
TEST_F(RefBackend, SegmentsHaveTheirOwnSettings) {
  const CaseTableRows rows = case_segments(
      operands_, {{.begin = 8, .count = 1, .group = 1}, {.begin = 10, .count = 2, .group = 0}});
  const SgdSegments op{.weight = full({1, 1, 1, 1, 1, 1}),
                       .storage = {},
                       .gradient = full({1, 1, 1, 1, 1, 1}),
                       .momentum_buffer = {},
                       .table = rows.table,
                       .first = 7,
                       .settings = settings({0.25, 0, 0.5, 1}),
                       .factor = one(1),
                       .skip = one(0)};
  sgd_segments(context_, op);
  expect_near(op.weight, {1, 0, 1, 0.75, 0.75, 1});
}

TEST_F(RefBackend, AdamAddsEpsilonAfterTheRoot) {
  const CaseTableRows rows = case_segments(operands_, {{.count = 1}});
  const auto corrections = adam_corrections(0.9, 0.999, 1);
  const AdamSegments op{.weight = one(0),
                        .storage = {},
                        .gradient = one(1e-3),
                        .exp_avg = one(0),
                        .exp_avg_sq = one(0),
                        .table = rows.table,
                        .settings = settings({1, 0}),
                        .corrections = full({corrections[0], corrections[1]}),
                        .factor = one(1),
                        .skip = one(0),
                        .epsilon = 1e-3};
  adam_segments(context_, op);
  expect_near(op.weight, {-0.5}, 1e-12);
}

// The second segment's sum comes first.
TEST_F(RefBackend, SquareSum) {
  const CaseTableRows rows =
      case_segments(operands_, {{.begin = kSumBlock - 2, .count = 3, .group = 1},
                                {.begin = kSumBlock + 2, .count = 1, .group = 0}});
  const SquareSumSegments op{.sums = full({9, 9, 9, 9}),
                             .x = full({3, -4, 12, 99, 5}),
                             .table = rows.table,
                             .first = kSumBlock - 2};
  square_sum_segments(context_, op);
  expect_near(op.sums, {25, 25, 144, 9});
}

TEST_F(RefBackend, ZeroCount) {
  const CaseTableRows rows = case_segments(operands_, {{.begin = kSumBlock - 1, .count = 4}});
  const ZeroCountSegments op{.counts = full({9, 9}),
                             .x = full({0, -0.0, 1e-300, 0}),
                             .table = rows.table,
                             .first = kSumBlock - 1};
  zero_count_segments(context_, op);
  expect_near(op.counts, {1, 2});
}

TEST_F(RefBackend, TotalsOfSegments) {
  const CaseTableRows rows = case_segments(
      operands_, {{.begin = 0, .count = 2, .group = 2}, {.begin = 3, .count = 1, .group = 0}});
  const TotalSegments op{.totals = full({9, 9, 9}), .x = full({1, 2, 4, 8}), .table = rows.table};
  total_segments(context_, op);
  expect_near(op.totals, {8, 9, 3});
}

TEST_F(RefBackend, TotalAddsInOrder) {
  const Total op{.sum = one(9), .x = full({1, 1e16, -1e16})};
  total(context_, op);
  expect_near(op.sum, {0});
}

TEST_F(RefBackend, GradientFactor) {
  GradientFactor op{.norm = one(9),
                    .factor = one(9),
                    .skip = one(9),
                    .square_sums = full({900, 1600}),
                    .tokens = one(50),
                    .expected_tokens = one(100),
                    .loss_scale = one(4),
                    .clip = 0};
  // average = 100 / 50 / 4 = 1/2, norm = 50 / 2.
  gradient_factor(context_, op);
  expect_near(op.norm, {25});
  expect_near(op.factor, {0.5});
  expect_near(op.skip, {0});
  op.clip = 5;
  gradient_factor(context_, op);
  expect_near(op.norm, {25});
  expect_near(op.factor, {0.5 * 5 / (25 + 1e-6)});
  op.clip = 30;
  gradient_factor(context_, op);
  expect_near(op.factor, {0.5});
  op.tokens = {};
  gradient_factor(context_, op);
  expect_near(op.norm, {12.5});
  expect_near(op.factor, {0.25});
  op.tokens = one(0);
  gradient_factor(context_, op);
  expect_near(op.norm, {0});
  expect_near(op.factor, {0});
  for (const double sum :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    op.square_sums = full({900, sum});
    op.tokens = one(50);
    gradient_factor(context_, op);
    expect_near(op.skip, {1});
  }
}

TEST_F(RefBackend, AccumulatingOpsAdd) {
  const Tensor x = operands_.values(DType::kF64, {2, 1}, std::vector{2.0, 3.0});
  const Tensor dy = operands_.values(DType::kF64, {2, 1}, std::vector{5.0, 7.0});
  LinearWeightGradient weight{operands_.filled(DType::kF64, {1, 1}, 100), dy, x};
  linear_weight_gradient(context_, weight);
  expect_near(weight.dweight, {131});
  weight.accumulate = false;
  linear_weight_gradient(context_, weight);
  expect_near(weight.dweight, {31});
  const BiasGradient bias{one(100), dy};
  bias_gradient(context_, bias);
  expect_near(bias.dbias, {112});
}

// Rows 10, 11 and 12 of a larger table; ids 9 and 13 lie outside this part.
TEST_F(RefBackend, EmbeddingReadsOnlyItsRows) {
  const Tensor ids = operands_.values(DType::kI32, {5, 1}, std::vector<double>{12, 9, 10, 12, 13});
  const EmbeddingForward forward{
      .y = operands_.output({5, 1, 1}),
      .table = operands_.values(DType::kF64, {3, 1}, std::vector<double>{1, 2, 3}),
      .ids = ids,
      .first_row = 10};
  embedding_forward(context_, forward);
  expect_near(forward.y, {3, 0, 1, 3, 0});
  const EmbeddingGradient gradient{
      .dtable = operands_.filled(DType::kF64, {3, 1}, 100),
      .ids = ids,
      .dy = operands_.values(DType::kF64, {5, 1, 1}, std::vector<double>{1, 2, 4, 8, 16}),
      .first_row = 10};
  embedding_gradient(context_, gradient);
  expect_near(gradient.dtable, {104, 100, 109});
}

// Two steps of two microbatches. Slots are taken in order of occurrence and are free after the
// join.
TEST_F(RefBackend, SparseEmbeddingGradientStartsAgainAfterTheJoin) {
  SparseEmbeddingGradient op{.slots = operands_.filled(DType::kI32, {3}, -1),
                             .rows = operands_.output(DType::kI32, {3}),
                             .count = operands_.filled(DType::kI32, {1}, 0),
                             .values = operands_.output({3, 1}),
                             .ids = operands_.output(DType::kI32, {2, 1}),
                             .dy = operands_.values(DType::kF64, {2, 1, 1}, std::vector{1.0, 2.0}),
                             .first_row = 10};
  const SparseEmbeddingJoin join{.dtable = operands_.filled(DType::kF64, {3, 1}, 100),
                                 .slots = op.slots,
                                 .rows = op.rows,
                                 .count = op.count,
                                 .values = op.values};
  for (const double step : {1.0, 2.0}) {
    op.ids = operands_.values(DType::kI32, {2, 1}, std::vector<double>{12, 10});
    sparse_embedding_gradient(context_, op);
    op.ids = operands_.values(DType::kI32, {2, 1}, std::vector<double>{10, 99});
    sparse_embedding_gradient(context_, op);
    expect_near(op.slots, {1, -1, 0});
    expect_near(op.rows.slice(0, 0, 2), {2, 0});
    expect_near(op.count, {2});
    expect_near(op.values.slice(0, 0, 2), {1, 3});
    sparse_embedding_join(context_, join);
    expect_near(op.slots, {-1, -1, -1});
    expect_near(op.count, {0});
    expect_near(join.dtable, {100 + 3 * step, 100, 100 + step});
  }
}

// Probability 1/2 drops about half of the elements and doubles the others. The mask of a row
// depends on its coordinates alone.
TEST_F(RefBackend, DropoutFollowsTheCoordinates) {
  const auto mask = [&](const RowCoordinates& rows, std::int64_t s, std::int64_t b) {
    const DropoutBackward op{.dx = operands_.output({s, b, 256}),
                             .dout = operands_.filled(DType::kF64, {s, b, 256}, 1.0),
                             .dropout = case_dropout(0.5),
                             .rows = rows};
    dropout_backward(context_, op);
    return ref::read(op.dx);
  };
  const RowCoordinates rows = operands_.rows(4, 2);
  const ref::Array whole = mask(rows, 4, 2);
  int kept = 0;
  for (const double value : whole.values) {
    EXPECT_TRUE(value == 0.0 || value == 2.0);
    kept += value == 2.0 ? 1 : 0;
  }
  EXPECT_NEAR(kept, 1024, 100);
  const auto last_column = [](const Tensor& tensor) {
    return tensor.slice(0, 3, 1).slice(1, 1, 1);
  };
  const ref::Array part = mask(
      {last_column(rows.sample), last_column(rows.position), last_column(rows.document)}, 1, 1);
  for (std::int64_t i = 0; i < 256; ++i) EXPECT_EQ(part(0, 0, i), whole(3, 1, i));
}

}  // namespace
}  // namespace phalanx::ops
