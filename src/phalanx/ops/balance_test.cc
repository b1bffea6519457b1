// Balancing losses against numbers of the programs that models come from.

#include "phalanx/ops/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "phalanx/ops/router_test_support.h"

namespace phalanx::ops {
namespace {

using BalanceNumbers = RouterNumbers;

TEST_P(BalanceNumbers, BalanceAMicrobatch) {
  const Tensor z = logits();
  constexpr double kFactor = 0.1 * 8 / (2 * 36);
  const Balance softmax = balance(z, 1, 2, RouterScore::kSoftmax, 1e-3 / 6);
  EXPECT_THAT(ref::read_integers(softmax.counts).values,
              testing::ElementsAre(2, 1, 2, 2, 1, 1, 1, 2));
  EXPECT_NEAR(loss_of(softmax.counts, softmax.score_sums, kFactor), .104040115694, tolerance_);
  ref::Array dz =
      balance_gradient_of(z, RouterScore::kSoftmax, dscores_of(softmax.counts, kFactor));
  EXPECT_THAT(first_of(dz, 8), are_near({.000565889, -.001084105, .001076622, .001004628,
                                         -.0008891299, -.0005155329, -.0002593828, .0001010113}));
  EXPECT_NEAR(norm(dz.values), .00619093148, tolerance_);

  const Balance sigmoid = balance(z, 1, 2, RouterScore::kSigmoid);
  EXPECT_NEAR(loss_of(sigmoid.counts, sigmoid.score_sums, kFactor), .101119820783, tolerance_);
  dz = balance_gradient_of(z, RouterScore::kSigmoid, dscores_of(sigmoid.counts, kFactor));
  EXPECT_NEAR(norm(dz.values), .00160304577, tolerance_);

  EXPECT_NEAR(ref::read_scalar(softmax.z_loss), .00863764141941, tolerance_);
  EXPECT_NEAR(ref::read_scalar(sigmoid.z_loss), 6e3 * .00863764141941, 1e5 * tolerance_);
  dz = balance_gradient_of(z, RouterScore::kSigmoid, {}, 1e-3 / 6);
  EXPECT_THAT(first_of(dz, 3), are_near({.0001334214, .0002077497, .0002538386}));
  EXPECT_NEAR(norm(dz.values), .00118319851, tolerance_);
}

TEST_P(BalanceNumbers, BalanceEverySequence) {
  const Tensor z = logits();
  constexpr double kFactor = 0.1 * 8 / (2 * 9) / 2;
  const auto expect = [&](RouterScore score, double loss, double gradient_norm) {
    const Balance found = balance(z, 2, 2, score);
    EXPECT_NEAR(loss_of(found.counts, found.score_sums, kFactor), loss, tolerance_);
    const ref::Array dz = balance_gradient_of(z, score, dscores_of(found.counts, kFactor));
    EXPECT_NEAR(norm(dz.values), gradient_norm, tolerance_);
  };
  expect(RouterScore::kSoftmax, .141433114214, .0144734779);
  expect(RouterScore::kSigmoid, .119425841567, .00443226244);
}

// The counts of all microbatches of the step so far.
TEST_P(BalanceNumbers, BalanceAStep) {
  constexpr double kFactor = 0.1 * 8 / (2 * 9);
  const Tensor first = logits(0, 3);
  const Tensor second = logits(3, 3);
  const Balance one = balance(first, 1, 2, RouterScore::kSoftmax);
  const Balance two = balance(second, 1, 2, RouterScore::kSoftmax);
  EXPECT_NEAR(loss_of(one.counts, one.score_sums, kFactor), .140456326522, tolerance_);
  std::vector<double> gradient =
      balance_gradient_of(first, RouterScore::kSoftmax, dscores_of(one.counts, kFactor / 2)).values;
  accumulate(context_, {.destination = one.counts, .source = two.counts});
  EXPECT_NEAR(loss_of(one.counts, two.score_sums, kFactor / 2), .107676357663, tolerance_);
  const std::vector<double> rest =
      balance_gradient_of(second, RouterScore::kSoftmax, dscores_of(one.counts, kFactor / 4))
          .values;
  gradient.insert(gradient.end(), rest.begin(), rest.end());
  EXPECT_NEAR(norm(gradient), .0124644409, tolerance_);
}

// What balancing losses count is neither grouped nor biased; the bias follows what was routed.
TEST_P(BalanceNumbers, CountWhatIsRoutedAndWhatIsBalanced) {
  const Tensor z = logits();
  const Tensor bias = values({kExperts}, kBias);
  const Routed routed = route(z, kGroupsWithBias, 4, bias);
  const Balance balanced = balance(z, 1, 4, RouterScore::kSigmoid);
  EXPECT_THAT(ref::read_integers(balanced.counts).values,
              testing::ElementsAre(3, 3, 4, 3, 4, 2, 2, 3));
  EXPECT_NEAR(loss_of(balanced.counts, balanced.score_sums, 0.1 * 8 / (4 * 36)), .100930296796,
              tolerance_);
  const Tensor counts = empty(DType::kI32, {kExperts});
  expert_counts(context_, {.counts = counts, .experts = routed.experts});
  EXPECT_THAT(ref::read_integers(counts).values, testing::ElementsAre(1, 1, 3, 3, 2, 2, 6, 6));
  expert_bias_update(context_, {.bias = bias, .counts = counts, .rate = 1e-3});
  EXPECT_THAT(ref::read(bias).values,
              testing::Pointwise(testing::DoubleNear(1e-6),
                                 {-.899, .301, -.8, .2, -.699, .101, .399, -.201}));
}

INSTANTIATE_TEST_SUITE_P(Machines, BalanceNumbers, router_machines(), router_machine_name);

}  // namespace
}  // namespace phalanx::ops
