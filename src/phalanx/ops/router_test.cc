// Routers and capacity against numbers of the programs that models come from.

#include "phalanx/ops/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/ops/router_test_support.h"

namespace phalanx::ops {
namespace {

struct Row {
  const char* name;
  RouterRule rule;
  bool has_bias;
  std::int64_t chosen;
  std::vector<std::string> experts;   // digits, of each token
  std::vector<double> first, fourth;  // probabilities of these tokens
  double loss, norm;                  // sum of p * cotangent; of its gradient by the logits
  std::vector<double> gradient;       // of the first token, or its beginning
};

std::vector<Row> rows() {
  const std::vector<std::string> two = {"23", "01", "05", "37", "26", "47"};
  return {
      {"softmax",
       {},
       false,
       2,
       two,
       {.517295917, .482704083},
       {.605595801, .394404199},
       -.7589611433,
       .530692522,
       {0, 0, .0508704674, -.0508704674, 0, 0, 0, 0}},
      {"softmax first",
       kFirst,
       false,
       2,
       two,
       {.216110988, .201659539},
       {.39386522, .256511185},
       -.6328213919,
       .4759521624,
       {-.0344996621, -.0537192321, .112727368, .0641060134, -.0440578988, -.025545531,
        -.0128528586, -.00615819909}},
      {"sigmoid",
       kScaledSigmoid,
       false,
       3,
       {"123", "017", "056", "347", "256", "247"},
       {.821148478, .84302174, .835829782},
       {.896134778, .771123382, .83274184},
       -3.985795014,
       .3526917791,
       {0, .0182366628, .00257225455, -.0190141247, 0, 0, 0, 0}},
      {"sigmoid of one",
       kSigmoid,
       false,
       1,
       {"2", "0", "5", "3", "2", "7"},
       {.879929391},
       {.857834119},
       -.6706013993,
       .2062621521,
       {}},
      {"sqrt(softplus)",
       kSqrtSoftplus,
       false,
       2,
       two,
       {.503628318, .496371682},
       {.525124199, .474875801},
       -.7436036888,
       .1236499402,
       {}},
      {"groups and bias",
       kGroupsWithBias,
       true,
       4,
       {"2367", "0167", "4567", "2367", "2367", "4567"},
       {.800193738, .793367153, .535926458, .370512651},
       {.375456374, .977518045, .238657559, .908368022},
       -5.998261559,
       .3987008149,
       {0, 0, .0468316218, .0287147886, 0, 0, -.124375437, -.185030503}},
      {"groups by maximum",
       kGroupsByMaximum,
       false,
       3,
       {"123", "017", "045", "237", "236", "457"},
       {.265308393, .324166481, .302489308},
       {.0481129112, .590797829, .384766777},
       -1.193636884,
       .7512715602,
       {}},
  };
}

TEST_P(RouterNumbers, ChooseWeighAndDifferentiate) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const Tensor z = logits();
    const Tensor bias = row.has_bias ? values({kExperts}, kBias) : Tensor();
    const Routed routed = route(z, row.rule, row.chosen, bias);
    EXPECT_EQ(routed.digits(), row.experts);
    const ref::Array p = ref::read(routed.probabilities);
    EXPECT_THAT(std::vector<double>(p.row(0), p.row(0) + row.chosen), are_near(row.first));
    EXPECT_THAT(std::vector<double>(p.row(3), p.row(3) + row.chosen), are_near(row.fourth));
    EXPECT_NEAR(routed.loss(), row.loss, 10 * tolerance_);
    const ref::Array dz = gradient_of(z, row.rule, routed.experts);
    EXPECT_NEAR(norm(dz.values), row.norm, 4 * tolerance_);
    EXPECT_THAT(first_of(dz, row.gradient.size()), are_near(row.gradient));
  }
}

// Sinkhorn's choice; what it counts is by the rule of one expert or of several.
TEST_P(RouterNumbers, ChooseAsSinkhorn) {
  const Tensor z = logits();
  const auto routed_by = [&](std::int64_t chosen, const RouterRule& rule) {
    const Shape shape{kTokens, chosen};
    const Routed routed{empty(DType::kI32, shape), empty(type(), shape)};
    sinkhorn_choice(context_, {.experts = routed.experts, .logits = z});
    router_forward(context_, {.experts = routed.experts,
                              .probabilities = routed.probabilities,
                              .logits = z,
                              .rule = rule,
                              .choice = RouterChoice::kGiven});
    return routed;
  };
  const Routed one = routed_by(1, kSigmoid);
  EXPECT_THAT(one.digits(), testing::ElementsAre("3", "0", "5", "3", "6", "7"));
  EXPECT_NEAR(one.loss(), -.774945433, 10 * tolerance_);
  const Routed two = routed_by(2, kFirst);
  EXPECT_THAT(two.digits(), testing::ElementsAre("13", "01", "56", "37", "26", "47"));
  EXPECT_NEAR(two.loss(), -.9279039478, 10 * tolerance_);
}

TEST_P(RouterNumbers, TakeTheLowerOfEqualExpertsAndTurns) {
  const Tensor z = values({3, kExperts}, std::vector<double>(3 * kExperts, 0.0));
  EXPECT_THAT(route(z, {}, 2, {}).digits(), testing::Each("01"));
  EXPECT_THAT(route(z, kGroupsByMaximum, 3, {}).digits(), testing::Each("012"));
  const Routed all = route(z, kFirst, kExperts, {});
  EXPECT_THAT(all.digits(), testing::Each("01234567"));
  EXPECT_THAT(ref::read(all.probabilities).values,
              testing::Each(testing::DoubleNear(0.125, 1e-15)));
  Routed turns = route(z, {}, 3, {});
  router_forward(context_, {.experts = turns.experts,
                            .probabilities = turns.probabilities,
                            .logits = z,
                            .choice = RouterChoice::kTurns});
  EXPECT_THAT(turns.digits(), testing::ElementsAre("012", "345", "067"));
}

// Nothing is lost where a score is 1 or almost 0.
TEST_P(RouterNumbers, ChooseByLogitsWhereScoresAreEqual) {
  const Tensor z = values({2, 4}, {80, 90, 85, 70, -90, -100, -80, -95});
  for (const RouterRule& rule : {kSigmoid, kSqrtSoftplus}) {
    EXPECT_THAT(route(z, rule, 2, {}).digits(), testing::ElementsAre("12", "02"));
  }
  const ref::Array dz = gradient_of(z, kSqrtSoftplus, route(z, kSqrtSoftplus, 2, {}).experts);
  for (const double value : dz.values) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(RouterNumbers, DropBeyondTheCapacity) {
  EXPECT_EQ(expert_capacity(5, 2, 4, 1.0), 3);
  EXPECT_EQ(expert_capacity(5, 2, 4, 1.25), 4);
  EXPECT_EQ(expert_capacity(5, 2, 4, 100.0), 5);
  const std::int64_t rows = expert_capacity(kTokens, 2, kExperts, 0.5);
  EXPECT_EQ(rows, 1);
  const auto dropped = [&](DropPolicy policy) {
    const Routed routed = route(logits(), {}, 2, {});
    router_capacity(context_, {.experts = routed.experts,
                               .probabilities = routed.probabilities,
                               .all_experts = kExperts,
                               .capacity = rows,
                               .policy = policy});
    return routed;
  };
  const Routed best = dropped(DropPolicy::kProbability);
  EXPECT_THAT(best.digits(), testing::ElementsAre("", "01", "5", "3", "26", "47"));
  EXPECT_NEAR(best.loss(), -1.349125584, 10 * tolerance_);
  const Routed first = dropped(DropPolicy::kPosition);
  EXPECT_THAT(first.digits(), testing::ElementsAre("23", "01", "5", "7", "6", "4"));
  EXPECT_NEAR(first.loss(), .0145596444, 10 * tolerance_);
  // Probabilities of dropped pairs are constants, but they were normalised with the others.
  const Tensor z = logits();
  const auto gradient_with = [&](const std::vector<double>& dp, const Tensor& experts) {
    return backward({.dlogits = empty(type(), z.shape),
                     .dprobabilities = values(experts.shape, dp),
                     .logits = z,
                     .experts = experts})
        .values;
  };
  const Routed whole = route(z, {}, 2, {});
  const ref::Integers kept = ref::read_integers(best.experts);
  std::vector<double> dp(2 * kTokens, 1.5);
  const std::vector<double> with_dropped = gradient_with(dp, best.experts);
  for (std::size_t i = 0; i < dp.size(); ++i) {
    if (kept.values[i] < 0) dp[i] = 0.0;
  }
  EXPECT_EQ(with_dropped, gradient_with(dp, whole.experts));
  EXPECT_GT(norm(with_dropped), 0.1);
}

TEST_P(RouterNumbers, FindLogitsThatAreNotFinite) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    std::vector<double> z(5 * 4, 1.0);
    z[2 * 4 + 1] = bad;
    z[2 * 4 + 3] = bad;
    z[4 * 4] = bad;
    const Tensor spoilt = values({5, 4}, z);
    EXPECT_THAT(
        error_of<InternalError>([&] { route(spoilt, {}, 2, {}); }),
        testing::HasSubstr("router_forward: the logit of expert 1 of 4 is not finite (row 2)"));
    const Tensor experts = empty(DType::kI32, {5, 2});
    EXPECT_THAT(
        error_of<InternalError>(
            [&] { sinkhorn_choice(context_, {.experts = experts, .logits = spoilt}); }),
        testing::HasSubstr("sinkhorn_choice: the logit of expert 1 of 4 is not finite (row 2)"));
  }
}

TEST_P(RouterNumbers, RefuseWhatCannotBeRouted) {
  const Tensor z = logits();
  const auto error_with = [&](const RouterRule& rule, std::int64_t chosen, const Tensor& bias) {
    return error_of<InternalError>([&] { route(z, rule, chosen, bias); });
  };
  EXPECT_THAT(error_with({}, 9, {}), testing::HasSubstr("9 of 8 experts for a token"));
  EXPECT_THAT(error_with({}, 2, values({kExperts}, kBias)), testing::HasSubstr("a bias beside"));
  EXPECT_THAT(error_with({.groups = 3}, 2, {}), testing::HasSubstr("1 of 3 groups of 8 experts"));
  EXPECT_THAT(error_with({.groups = 4}, 3, {}), testing::HasSubstr("3 experts out of 1 groups"));
  EXPECT_THAT(error_with({.groups = 4, .group_best = 3}, 2, {}),
              testing::HasSubstr("the best 3 of the 2 experts of a group"));
}

INSTANTIATE_TEST_SUITE_P(Machines, RouterNumbers, router_machines(), router_machine_name);

}  // namespace
}  // namespace phalanx::ops
