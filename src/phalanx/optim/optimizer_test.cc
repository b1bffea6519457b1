#include "phalanx/optim/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "phalanx/nn/test_support.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using nn::values_of;
using Values = std::vector<double>;

// Adam as its paper writes it, one number at a time.
struct Scalar {
  double weight, m = 0.0, v = 0.0;
  void step(double g, double lr, double decay, int t, const AdamRule& s) {
    m = s.beta1 * m + (1.0 - s.beta1) * g;
    v = s.beta2 * v + (1.0 - s.beta2) * g * g;
    const double mean = m / (1.0 - std::pow(s.beta1, t));
    const double variance = v / (1.0 - std::pow(s.beta2, t));
    weight -= lr * (mean / (std::sqrt(variance) + s.epsilon) + decay * weight);
  }
};

// A matrix [2, 2] with one padded row, and a vector [3].
class OneRankOptimizer : public testing::Test {
 protected:
  explicit OneRankOptimizer(DType dtype = DType::kF64)
      : full_(nn::full_precision(dtype)), table_(make_table(dtype)) {
    parameters_.initialise(context_, random_key(1, RandomPurpose::kInitialisation));
    ops::fill(context_, {.x = loss_scale_, .value = 1.0});
    gradients_.initialise(context_);
    gradients_.clear(context_);
  }

  static nn::ParamTable make_table(DType dtype) {
    nn::ParamTable table;
    table.add(whole_parameter("matrix", {2, 2}, dtype, {Initialiser::Kind::kNormal, 1.0}, 3));
    table.add(whole_parameter("vector", {3}, dtype, {Initialiser::Kind::kConstant, 0.5}));
    return table;
  }

  Optimizer make(const OptimizerSettings& settings) {
    Optimizer optimizer(parameters_, gradients_, settings, {}, memory_, memory_);
    optimizer.initialise(context_);
    return optimizer;
  }
  // Nothing is cut: a parameter is one segment.
  const Segment& segment_of(ParamId id) const {
    return parameters_.states().segments().at(static_cast<std::size_t>(id));
  }
  // The first `values` elements; the padded row keeps its zeros.
  void set(const Tensor& tensor, const Values& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      ref::store(tensor.data() + static_cast<std::int64_t>(i) * size_of(tensor.dtype), tensor.dtype,
                 values[i]);
    }
  }
  void set_gradients(const Values& matrix, const Values& vector) {
    set(gradients_.gradient(0), matrix);
    set(gradients_.gradient(1), vector);
  }
  StepInputs inputs(double lr, double decay = 0.0, std::int64_t step = 1) const {
    return {.lr = lr,
            .weight_decay = decay,
            .step = step,
            .tokens = {},
            .expected_tokens = 1.0,
            .loss_scale = loss_scale_};
  }
  Values everything(const Optimizer& optimizer) const {
    Values all;
    for (ParamId id = 0; id < 2; ++id) {
      std::vector<Tensor> tensors = {parameters_.main(id), parameters_.weight(id)};
      for (const auto name : optimizer.state_names()) {
        tensors.push_back(optimizer.state(name, segment_of(id)));
      }
      for (const Tensor& tensor : tensors) {
        const auto values = values_of(tensor);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }

  DType full_;
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Arena memory_{"memory", 1 << 20};
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  nn::ParamTable table_;
  ParameterStore parameters_{StateLayout(table_), memory_, memory_};
  GradientStore gradients_{parameters_.states(), full_, 8, memory_};
  Tensor loss_scale_ = memory_.allocate(full_, {1});
};

const Values kMatrix = {0.3, -0.1, 0.02, 0.0};
const Values kVector = {-0.2, 0.05, 0.4};

TEST_F(OneRankOptimizer, StepsAsThePaper) {
  const AdamRule rule{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
  const Optimizer optimizer = make({.rule = rule, .clip_grad = 0.0});
  std::vector<Scalar> matrix, vector;
  for (const double w : values_of(parameters_.main(0))) matrix.push_back({.weight = w});
  for (const double w : values_of(parameters_.main(1))) vector.push_back({.weight = w});
  for (int t = 1; t <= 4; ++t) {
    Values dmatrix = kMatrix;
    Values dvector = kVector;
    for (double& g : dmatrix) g *= t - 2.5;
    for (double& g : dvector) g *= 1.0 / t;
    set_gradients(dmatrix, dvector);
    const double lr = 0.01 * t;
    optimizer.step(context_, inputs(lr, 0.1, t));
    // Decay is the matrix's alone.
    for (std::size_t i = 0; i < 4; ++i) matrix[i].step(dmatrix[i], lr, 0.1, t, rule);
    for (std::size_t i = 0; i < 3; ++i) vector[i].step(dvector[i], lr, 0.0, t, rule);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(values_of(parameters_.main(0))[i], matrix[i].weight, 1e-14);
      EXPECT_NEAR(values_of(optimizer.state("exp_avg", segment_of(0)))[i], matrix[i].m, 1e-15);
      EXPECT_NEAR(values_of(optimizer.state("exp_avg_sq", segment_of(0)))[i], matrix[i].v, 1e-15);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(values_of(parameters_.main(1))[i], vector[i].weight, 1e-14);
    }
    // The padded row stays what it is.
    for (const Tensor& tensor : {parameters_.main(0), parameters_.weight(0)}) {
      EXPECT_EQ(values_of(tensor.slice(0, 2, 1)), Values(2, 0.0));
    }
    EXPECT_EQ(values_of(optimizer.state("exp_avg", segment_of(0)).slice(0, 4, 2)), Values(2, 0.0));
  }
}

double norm_of(const Values& a, const Values& b) {
  double sum = 0.0;
  for (const double value : a) sum += value * value;
  for (const double value : b) sum += value * value;
  return std::sqrt(sum);
}

// The first moment after one step shows what the gradient was multiplied by.
TEST_F(OneRankOptimizer, ClipsByTheNormOfAllParameters) {
  const double norm = norm_of(kMatrix, kVector);
  for (const double clip : {0.0, 0.1, 10.0}) {
    const Optimizer optimizer = make({.rule = AdamRule{.beta1 = 0.5}, .clip_grad = clip});
    set_gradients(kMatrix, kVector);
    optimizer.step(context_, inputs(0.01));
    EXPECT_NEAR(values_of(optimizer.norm())[0], norm, 1e-15) << clip;
    const double factor = clip == 0.1 ? 0.1 / (norm + 1e-6) : 1.0;
    EXPECT_NEAR(values_of(optimizer.state("exp_avg", segment_of(1)))[2], 0.5 * 0.4 * factor, 1e-15)
        << clip;
    EXPECT_EQ(values_of(optimizer.skip())[0], 0.0);
  }
}

// Gradients are sums divided by the tokens a full batch has: three of eight are masked. The loss
// scale falls out; the norm is that of the average.
TEST_F(OneRankOptimizer, AveragesOverUnmaskedTokensAndUnscales) {
  const Optimizer optimizer = make({.rule = AdamRule{.beta1 = 0.5}, .clip_grad = 0.0});
  set_gradients(kMatrix, kVector);
  ops::fill(context_, {.x = loss_scale_, .value = 4.0});
  StepInputs step = inputs(0.01);
  step.tokens = memory_.allocate(DType::kF64, {1});
  step.expected_tokens = 8.0;
  ops::fill(context_, {.x = step.tokens, .value = 5.0});
  optimizer.step(context_, step);
  const double average = 8.0 / 5.0 / 4.0;
  EXPECT_NEAR(values_of(optimizer.norm())[0], average * norm_of(kMatrix, kVector), 1e-15);
  EXPECT_NEAR(values_of(optimizer.state("exp_avg", segment_of(1)))[2], 0.5 * 0.4 * average, 1e-15);
}

// With no token unmasked there is nothing to learn, and nothing breaks.
TEST_F(OneRankOptimizer, NoTokens) {
  const Optimizer optimizer = make({});
  StepInputs step = inputs(0.01);
  step.tokens = memory_.allocate(DType::kF64, {1});
  ops::fill(context_, {.x = step.tokens, .value = 0.0});
  const auto before = everything(optimizer);
  optimizer.step(context_, step);
  EXPECT_EQ(values_of(optimizer.norm())[0], 0.0);
  EXPECT_EQ(everything(optimizer), before);
}

TEST_F(OneRankOptimizer, SkipsAStepThatIsNotFinite) {
  const Optimizer optimizer = make({});
  set_gradients(kMatrix, kVector);
  optimizer.step(context_, inputs(0.01, 0.1, 1));
  const auto before = everything(optimizer);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    set_gradients(kMatrix, {0.1, bad, 0.1});
    optimizer.step(context_, inputs(0.01, 0.1, 2));
    EXPECT_EQ(values_of(optimizer.skip())[0], 1.0);
    EXPECT_EQ(everything(optimizer), before) << bad;
  }
  set_gradients(kMatrix, kVector);
  optimizer.step(context_, inputs(0.01, 0.1, 2));
  EXPECT_EQ(values_of(optimizer.skip())[0], 0.0);
  EXPECT_NE(everything(optimizer), before);
}

// torch.optim.SGD by hand: the first momentum is the gradient with its decay, later ones keep nine
// tenths of the one before.
TEST_F(OneRankOptimizer, DescendsWithMomentumAsTorch) {
  const Optimizer optimizer = make({.rule = SgdRule{.momentum = 0.9}, .clip_grad = 0.0});
  set(parameters_.main(0), {0.5, -1.0, 0.0, 2.0});
  const double vector_before = values_of(parameters_.main(1))[0];
  const std::array<double, 3> gradients = {0.3, -0.2, 0.05};
  const std::array<double, 3> rates = {0.1, 0.2, 0.05};
  const std::array<double, 3> momenta = {0.35, 0.1615, 0.23862};
  const std::array<double, 3> weights = {0.465, 0.4327, 0.420769};
  for (std::size_t t = 0; t < 3; ++t) {
    set_gradients({gradients[t], 0.0, 0.0, 0.0}, {gradients[t], 0.0, 0.0});
    optimizer.step(context_, inputs(rates[t], 0.1, static_cast<std::int64_t>(t) + 1));
    EXPECT_NEAR(values_of(optimizer.state("momentum_buffer", segment_of(0)))[0], momenta[t], 1e-15);
    EXPECT_NEAR(values_of(parameters_.main(0))[0], weights[t], 1e-15);
    // Nothing but its decay moves a weight without a gradient, and zeros stay.
    EXPECT_EQ(values_of(parameters_.main(0))[2], 0.0);
    EXPECT_EQ(values_of(parameters_.main(0).slice(0, 2, 1)), Values(2, 0.0));
  }
  // A vector does not decay: momenta 0.3, 0.07 and 0.113.
  EXPECT_NEAR(values_of(optimizer.state("momentum_buffer", segment_of(1)))[0], 0.113, 1e-15);
  EXPECT_NEAR(values_of(parameters_.main(1))[0], vector_before - 0.03 - 0.014 - 0.00565, 1e-15);
}

TEST_F(OneRankOptimizer, KeepsNothingWithoutMomentum) {
  const std::int64_t before = memory_.high_water();
  const Optimizer optimizer = make({.rule = SgdRule{.momentum = 0.0}, .clip_grad = 0.0});
  const std::int64_t without = memory_.high_water() - before;
  make({.rule = SgdRule{.momentum = 0.5}, .clip_grad = 0.0});
  const std::int64_t with_momentum = memory_.high_water() - before - without;
  EXPECT_GT(with_momentum, without);
  EXPECT_TRUE(optimizer.state_names().empty());
  set(parameters_.main(0), {0.5});
  set_gradients({0.3}, {});
  optimizer.step(context_, inputs(0.1, 0.1, 1));
  EXPECT_NEAR(values_of(parameters_.main(0))[0], 0.5 - 0.1 * 0.35, 1e-15);
}

// Clipping and skipping are those of any rule.
TEST_F(OneRankOptimizer, ClipsAndSkipsADescent) {
  const Optimizer optimizer = make({.rule = SgdRule{.momentum = 0.9}, .clip_grad = 0.1});
  set_gradients(kMatrix, kVector);
  optimizer.step(context_, inputs(0.01));
  const double factor = 0.1 / (norm_of(kMatrix, kVector) + 1e-6);
  EXPECT_NEAR(values_of(optimizer.state("momentum_buffer", segment_of(1)))[2], 0.4 * factor, 1e-15);
  const auto before = everything(optimizer);
  set_gradients(kMatrix, {0.1, std::numeric_limits<double>::infinity(), 0.1});
  optimizer.step(context_, inputs(0.01, 0.1, 2));
  EXPECT_EQ(values_of(optimizer.skip())[0], 1.0);
  EXPECT_EQ(everything(optimizer), before);
}

// The matrix is of the input layer.
TEST_F(OneRankOptimizer, TheInputLayerHasItsOwnRate) {
  ParamSpec input = whole_parameter("input", {2, 2}, DType::kF64, {}, 3);
  input.decoupled_rate = true;
  nn::ParamTable table;
  table.add(std::move(input));
  table.add(whole_parameter("vector", {3}, DType::kF64, {}));
  const ParameterStore parameters(StateLayout(table), memory_, memory_);
  GradientStore gradients(parameters.states(), DType::kF64, 8, memory_);
  parameters.clear(context_);
  gradients.initialise(context_);
  gradients.clear(context_);
  Optimizer optimizer(parameters, gradients, {.rule = SgdRule{.momentum = 0.0}, .clip_grad = 0.0},
                      {}, memory_, memory_);
  optimizer.prepare(context_);
  set(gradients.gradient(0), {1.0});
  set(gradients.gradient(1), {1.0});
  StepInputs step = inputs(0.25);
  optimizer.step(context_, step);
  EXPECT_EQ(values_of(parameters.main(0))[0], -0.25);
  step.decoupled_lr = 0.5;
  optimizer.step(context_, step);
  EXPECT_EQ(values_of(parameters.main(0))[0], -0.75);
  EXPECT_EQ(values_of(parameters.main(1))[0], -0.5);
}

class Bf16Optimizer : public OneRankOptimizer {
 protected:
  Bf16Optimizer() : OneRankOptimizer(DType::kBF16) {}
};

// Steps too small for bf16 add up in the main parameter, and storage is its rounding.
TEST_F(Bf16Optimizer, MovesMainParametersAndRoundsThem) {
  const Optimizer optimizer = make({.clip_grad = 0.0});
  for (int t = 1; t <= 20; ++t) {
    set_gradients(kMatrix, {1.0, 1.0, 1.0});
    optimizer.step(context_, inputs(1e-4, 0.0, t));
    for (ParamId id = 0; id < 2; ++id) {
      const auto main = values_of(parameters_.main(id));
      const auto stored = values_of(parameters_.weight(id));
      for (std::size_t i = 0; i < main.size(); ++i) {
        EXPECT_EQ(stored[i], to_float(to_bfloat16(static_cast<float>(main[i]))));
      }
    }
  }
  EXPECT_NEAR(values_of(parameters_.main(1))[0], 0.5 - 20e-4, 1e-6);
  EXPECT_LT(values_of(parameters_.weight(1))[0], 0.5);
}

}  // namespace
}  // namespace phalanx
