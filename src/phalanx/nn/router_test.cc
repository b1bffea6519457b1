// The router: what it chooses by, what it counts, and the balancing loss of all ranks' tokens. The
// numbers are those of an independent implementation in double precision.

#include "phalanx/nn/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/ops/balance.h"

namespace phalanx::nn {
namespace {

using Kind = RouterLoss::Kind;

constexpr std::int64_t kExperts = 8;

// A router of eight experts whose weight is the identity, so its input is its logits: of token t
// and expert e, 2 sin(0.37 (t + 1) (e + 2)).
class RouterExample {
 public:
  explicit RouterExample(const ExpertSettings& experts, std::int64_t tokens = 6,
                         Communicator* rows = nullptr, std::int64_t first_token = 0)
      : config_(config_of(experts)),
        router_(all_.table, all_.owned, all_.slots, "weight", config_, "router") {
    all_.shape = {.sequence = tokens, .micro_batch = 1};
    all_.rows = rows;
    all_.allocate(machine_.operands, all_.slots.slots());
    for (const Tensor& parameter : all_.parameters) {
      ops::fill(machine_.context, {.x = parameter, .value = 0.0});
    }
    for (std::int64_t e = 0; e < kExperts; ++e) {
      write_element(all_.parameters[0], e * kExperts + e, 1.0);
    }
    x_ = machine_.operands.output({tokens, kExperts});
    show(first_token);
    dx_ = machine_.operands.filled(DType::kF64, {tokens, kExperts}, 0.0);
    dprobabilities_ = machine_.operands.filled(DType::kF64, {tokens, experts.chosen}, 0.0);
    all_.auxiliary.assign(experts.losses.size(),
                          {.sum = machine_.operands.filled(DType::kF64, {1}, 0.0)});
  }

  void set_bias(const Values& bias) {
    for (std::size_t e = 0; e < bias.size(); ++e) {
      write_element(all_.parameters[1], static_cast<std::int64_t>(e), bias[e]);
    }
  }
  // The input: tokens from this one on.
  void show(std::int64_t first_token) {
    for (std::int64_t i = 0; i < x_.count(); ++i) {
      const auto t = static_cast<double>(first_token + i / kExperts);
      const auto e = static_cast<double>(i % kExperts);
      write_element(x_, i, 2.0 * std::sin(0.37 * (t + 1.0) * (e + 2.0)));
    }
  }
  void forward(const std::function<void(Pass&)>& change = [](Pass&) {}) {
    Pass pass = all_.pass(machine_.context);
    change(pass);
    router_.forward(pass, x_, all_.saved());
  }
  // Of the losses alone.
  Values backward() {
    Pass pass = all_.pass(machine_.context);
    ops::fill(machine_.context, {.x = dx_, .value = 0.0});
    router_.backward_input(pass, dx_, dprobabilities_, all_.saved());
    Values gradient = values_of(dx_);
    for (double& value : gradient) value /= 8.0;  // the loss scale of test layers
    return gradient;
  }
  // "23 01": the experts of each token.
  std::string experts() const {
    std::string text;
    const Values numbers = values_of(router_.experts(all_.saved()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const bool begins = i % static_cast<std::size_t>(config_.experts.chosen) == 0;
      text += fmt::format("{}{}", begins && i > 0 ? " " : "", static_cast<int>(numbers[i]));
    }
    return text;
  }
  Values probabilities() const { return values_of(router_.probabilities(all_.saved())); }
  Values given() const { return values_of(all_.given[0]); }
  Values moved_bias() {
    ops::expert_bias_update(machine_.context,
                            {.bias = all_.parameters[1], .counts = all_.given[0], .rate = 1e-3});
    return values_of(all_.parameters[1]);
  }
  double loss(std::size_t number = 0) const { return values_of(all_.auxiliary[number].sum)[0]; }
  LayerFixture& fixture() { return all_; }
  Context& context() { return machine_.context; }

 private:
  static TransformerConfig config_of(const ExpertSettings& experts) {
    TransformerConfig config = test_config();
    config.hidden = kExperts;
    config.experts = experts;
    config.experts.experts = kExperts;
    return config;
  }

  TestMachine machine_;
  TransformerConfig config_;
  LayerFixture all_;
  Router router_;
  Tensor x_, dx_, dprobabilities_;
};

double norm(const Values& values) {
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

const Values kBias = {-0.9, 0.3, -0.8, 0.2, -0.7, 0.1, 0.4, -0.2};
const ExpertSettings kGroups{.chosen = 4,
                             .rule = {.score = ops::RouterScore::kSigmoid,
                                      .groups = 4,
                                      .group_topk = 2,
                                      .group_best = 2,
                                      .scaling = 2.5},
                             .bias = true};

// The bias changes which experts are chosen, and no probability.
TEST(Router, ChoosesByScoresWithTheirBias) {
  RouterExample router(kGroups);
  router.set_bias(kBias);
  router.forward();
  EXPECT_EQ(router.experts(), "2367 0167 4567 2367 2367 4567");
  const Values p = router.probabilities();
  expect_near({p.begin(), p.begin() + 4}, {0.800193738, 0.793367153, 0.535926458, 0.370512651},
              1e-9, "probabilities");
  EXPECT_EQ(router.given(), (Values{1, 1, 3, 3, 2, 2, 6, 6}));
}

// The mean is 3: experts with as many tokens keep their bias.
TEST(Router, MovesTheBiasTowardsEqualWork) {
  RouterExample router(kGroups);
  router.set_bias(kBias);
  router.forward();
  expect_near(router.moved_bias(), {-0.899, 0.301, -0.8, 0.2, -0.699, 0.101, 0.399, -0.201}, 1e-12,
              "bias");
}

TEST(Router, CountsWhatItGaveInTrainingAlone) {
  RouterExample router({.chosen = 2});
  router.forward();
  EXPECT_EQ(router.given(), (Values{2, 1, 2, 2, 1, 1, 1, 2}));
  router.forward([](Pass& pass) { pass.router_counts = {}; });
  EXPECT_EQ(router.given(), (Values{2, 1, 2, 2, 1, 1, 1, 2}));
  router.forward();
  EXPECT_EQ(router.given(), (Values{4, 2, 4, 4, 2, 2, 2, 4}));
}

// An expert has ceil(6 * 2 / 8 * 0.5) = 1 token at most.
TEST(Router, DoesNotCountWhatIsDropped) {
  RouterExample router({.chosen = 2, .capacity_factor = 0.5});
  router.forward();
  EXPECT_EQ(router.given(), Values(8, 1.0));
}

TEST(Router, ChoosesBySinkhornInTrainingAlone) {
  for (const std::int64_t chosen : {1, 2}) {
    ExpertSettings settings{.chosen = chosen, .choice = ExpertChoice::kSinkhorn};
    settings.rule.score =
        chosen == 1 ? ops::RouterScore::kSigmoid : ops::RouterScore::kSoftmaxFirst;
    RouterExample router(settings);
    router.forward();
    EXPECT_EQ(router.experts(), chosen == 1 ? "3 0 5 3 6 7" : "13 01 56 37 26 47");
    router.forward([](Pass& pass) { pass.training = false; });
    EXPECT_EQ(router.experts(), chosen == 1 ? "2 0 5 3 2 7" : "23 01 05 37 26 47");
  }
}

// Of one expert for each token, whose probability is the sigmoid of the largest logit.
TEST(Router, MultipliesItsInputByFactorsInTrainingAlone) {
  const ExpertSettings settings{.chosen = 1, .rule = {.score = ops::RouterScore::kSigmoid}};
  RouterExample plain(settings);
  plain.forward();
  ExpertSettings with_jitter = settings;
  with_jitter.input_jitter = 0.01;
  RouterExample router(with_jitter);
  const auto logits = [](const RouterExample& example) {
    Values values = example.probabilities();
    for (double& p : values) p = std::log(p / (1.0 - p));
    return values;
  };
  router.forward();
  const Values expected = logits(plain);
  const Values found = logits(router);
  for (std::size_t t = 0; t < expected.size(); ++t) {
    EXPECT_NE(found[t], expected[t]) << t;
    EXPECT_NEAR(found[t], expected[t], 0.0101 * std::abs(expected[t])) << t;
  }
  router.forward();
  EXPECT_EQ(logits(router), found);
  router.forward([](Pass& pass) { pass.training = false; });
  EXPECT_EQ(logits(router), expected);
}

TEST(Router, GivesExpertsInTurnWhereItIsForcedTo) {
  RouterExample router({.chosen = 3, .choice = ExpertChoice::kForced}, 8);
  router.forward();
  EXPECT_EQ(router.given(), Values(8, 3.0));
}

constexpr double kCoefficient = 0.1;
const ExpertSettings kGlobal{.chosen = 2, .losses = {{Kind::kGlobalBalance, kCoefficient}}};

// Two microbatches of three tokens. The second counts the tokens of both.
TEST(Router, BalancesAStepsMicrobatchesSoFar) {
  RouterExample router(kGlobal, 3);
  router.fixture().auxiliary[0].factor = 0.5;
  router.forward();
  EXPECT_NEAR(kCoefficient * router.loss(), 0.140456326522, 1e-12);
  const Values first = router.backward();
  const double before = router.loss();
  router.show(3);
  router.fixture().microbatches = 2;
  router.forward();
  EXPECT_NEAR(kCoefficient * (router.loss() - before), 0.107676357663, 1e-12);
  const Values second = router.backward();
  EXPECT_NEAR(std::hypot(norm(first), norm(second)), 0.0124644409, 1e-10);
}

// One microbatch of which two ranks have three tokens each: the loss of six tokens on one.
TEST(Router, BalancesTheTokensOfAllRanks) {
  Values sums(2), squares(2);
  Values first;
  run_local_ranks(2, {}, [&](Communicator& world) {
    const int rank = world.rank();
    RouterExample router(kGlobal, 3, &world, 3 * rank);
    router.fixture().auxiliary[0].factor = 0.5;  // a mean over microbatches and ranks
    router.forward();
    const Values gradient = router.backward();
    if (rank == 0) first = gradient;
    sums[static_cast<std::size_t>(rank)] = router.loss();
    squares[static_cast<std::size_t>(rank)] = norm(gradient) * norm(gradient);
  });
  EXPECT_NEAR(kCoefficient * 0.5 * (sums[0] + sums[1]), 0.104040115694, 1e-12);
  EXPECT_NEAR(std::sqrt(squares[0] + squares[1]), 0.00619093148, 1e-11);
  EXPECT_NEAR(first[0], 0.000565889, 1e-9);
  EXPECT_NEAR(first[1], -0.001084105, 1e-9);
}

}  // namespace
}  // namespace phalanx::nn
