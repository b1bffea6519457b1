// A layer of experts out of ops, forward and backward, against numbers that were computed by
// another program in double precision: 6 tokens, 4 experts of which each token has 2, gated SiLU.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/grouped_activation.h"
#include "phalanx/ops/grouped_linear.h"
#include "phalanx/ops/permute.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

constexpr std::int64_t kTokens = 6, kWidth = 4, kInner = 3, kExperts = 4, kPairs = 2;

// sin(a (i + 1) (j + 2) + b), times `scale`.
ref::Array waves(std::int64_t rows, std::int64_t columns, double a, double b, double scale = 1.0) {
  ref::Array x(Shape{rows, columns});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      x(i, j) = scale * std::sin(a * static_cast<double>((i + 1) * (j + 2)) + b);
    }
  }
  return x;
}

double norm(const ref::Array& x) {
  double sum = 0.0;
  for (const double value : x.values) sum += value * value;
  return std::sqrt(sum);
}

// The layer on a backend; what it computes is read back as doubles.
class ExpertLayer {
 public:
  ExpertLayer(Backend& backend, DType dtype, bool biases)
      : context_{.backend = backend, .workspace = workspace_}, dtype_(dtype), biases_(biases) {
    const ref::Array x = waves(kTokens, kWidth, 0.21, 0.0);
    const ref::Array router = waves(kExperts, kWidth, 0.5, 0.0, 3.0);
    x_ = filled(x);
    choose(x, router);
    w1_ = stack([](double e) { return waves(2 * kInner, kWidth, 0.1 * e, 0.3); });
    w2_ = stack([](double e) { return waves(kWidth, kInner, 0.2 * e, 0.7); });
    b1_ = stack([](double e) { return waves(1, 2 * kInner, 0.3 * e, 0.0, 0.1); });
    b2_ = stack([](double e) { return waves(1, kWidth, 0.4 * e, 0.0, 0.1); });
    b1_ = biases ? b1_.reshape({kExperts, 2 * kInner}) : Tensor();
    b2_ = biases ? b2_.reshape({kExperts, kWidth}) : Tensor();
    forward();
    backward(x, router);
  }

  ref::Array y{Shape{0}}, dx{Shape{0}}, drouter{Shape{0}}, p{Shape{0}};
  ref::Array dw1{Shape{0}}, dw2{Shape{0}}, db1{Shape{0}}, db2{Shape{0}};
  std::vector<std::int64_t> counts;

 private:
  static constexpr std::int64_t kRows = kTokens * kPairs;

  Tensor tensor(const Shape& shape) { return arena_.allocate(dtype_, shape); }
  Tensor integers(const Shape& shape) { return arena_.allocate(DType::kI32, shape); }
  Tensor filled(const ref::Array& values) {
    const Tensor to = tensor(values.shape);
    ref::write(to, values);
    return to;
  }
  // A matrix for each expert, numbered from 1.
  Tensor stack(const std::function<ref::Array(double)>& matrix) {
    const Shape one = matrix(1.0).shape;
    const Tensor to = tensor({kExperts, one[0], one[1]});
    for (std::int64_t e = 0; e < kExperts; ++e) {
      ref::write(to.select(0, e), matrix(static_cast<double>(e + 1)));
    }
    return to;
  }

  // The two largest logits of every token, softmax over them.
  void choose(const ref::Array& x, const ref::Array& router) {
    ref::Integers chosen(Shape{kTokens, kPairs});
    p = ref::Array(Shape{kTokens, kPairs});
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::array<double, kExperts> z{};
      for (std::int64_t e = 0; e < kExperts; ++e) {
        for (std::int64_t i = 0; i < kWidth; ++i) {
          z[static_cast<std::size_t>(e)] += x(t, i) * router(e, i);
        }
      }
      std::array<std::size_t, kExperts> order{0, 1, 2, 3};
      std::ranges::sort(order, std::greater(), [&](std::size_t e) { return z[e]; });
      std::ranges::sort(order.begin(), order.begin() + kPairs);
      const double total = std::exp(z[order[0]]) + std::exp(z[order[1]]);
      for (std::int64_t i = 0; i < kPairs; ++i) {
        const std::size_t expert = order[static_cast<std::size_t>(i)];
        chosen(t, i) = static_cast<std::int64_t>(expert);
        p(t, i) = std::exp(z[expert]) / total;
      }
    }
    order_.chosen = integers(chosen.shape);
    ref::write_integers(order_.chosen, chosen);
    order_.offsets = integers({kExperts + 1});
    order_.pair_of_row = integers({kRows});
    order_.row_of_pair = integers({kTokens, kPairs});
    sort_pairs(context_, order_);
    const ref::Integers offsets = ref::read_integers(order_.offsets);
    for (std::int64_t e = 0; e < kExperts; ++e) counts.push_back(offsets(e + 1) - offsets(e));
  }

  void forward() {
    rows_ = tensor({kRows, kWidth});
    permute_rows(context_, {.to = rows_,
                            .from = x_,
                            .pair_of_row = order_.pair_of_row,
                            .probabilities = {},
                            .k = kPairs});
    probabilities_ = tensor({kRows});
    gather_elements(context_,
                    {.to = probabilities_, .from = filled(p), .index = order_.pair_of_row});
    inner_ = tensor({kRows, 2 * kInner});
    grouped_linear_forward(context_, {.y = inner_,
                                      .x = rows_,
                                      .weight = w1_,
                                      .offsets = order_.offsets,
                                      .bias = {},
                                      .bias_factors = {}});
    activated_ = tensor({kRows, kInner});
    grouped_activation_forward(context_, {.y = activated_,
                                          .x = inner_,
                                          .offsets = order_.offsets,
                                          .bias = b1_,
                                          .probabilities = probabilities_});
    const Tensor outer = tensor({kRows, kWidth});
    grouped_linear_forward(context_, {.y = outer,
                                      .x = activated_,
                                      .weight = w2_,
                                      .offsets = order_.offsets,
                                      .bias = b2_,
                                      .bias_factors = biases_ ? probabilities_ : Tensor()});
    const Tensor sums = tensor({kTokens, kWidth});
    unpermute_rows(
        context_,
        {.y = sums, .rows = outer, .row_of_pair = order_.row_of_pair, .probabilities = {}});
    y = ref::read(sums);
  }

  // The gradients of a linear layer's weight and input.
  Tensor linear_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         ref::Array& dweight) {
    const Tensor gradient = tensor(weight.shape);
    grouped_linear_weight_gradient(
        context_,
        {.dweight = gradient, .dy = dy, .x = x, .offsets = order_.offsets, .accumulate = false});
    dweight = ref::read(gradient);
    const Tensor dx_rows = tensor(x.shape);
    grouped_linear_input_gradient(
        context_, {.dx = dx_rows, .dy = dy, .weight = weight, .offsets = order_.offsets});
    return dx_rows;
  }
  ref::Array bias_backward(const Tensor& dy, const Tensor& factors) {
    const Tensor dbias = tensor({kExperts, dy.shape[1]});
    grouped_bias_gradient(context_, {.dbias = dbias,
                                     .dy = dy,
                                     .offsets = order_.offsets,
                                     .factors = factors,
                                     .accumulate = false});
    return ref::read(dbias);
  }

  void backward(const ref::Array& x, const ref::Array& router) {
    ref::Array dy(Shape{kTokens, kWidth});
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        dy(t, j) = std::cos(0.4 * static_cast<double>(t) + 0.2 * static_cast<double>(j));
      }
    }
    const Tensor douter = tensor({kRows, kWidth});
    permute_rows(context_, {.to = douter,
                            .from = filled(dy),
                            .pair_of_row = order_.pair_of_row,
                            .probabilities = {},
                            .k = kPairs});
    const Tensor dactivated = linear_backward(douter, activated_, w2_, dw2);
    const Tensor dinner = tensor(inner_.shape);
    const Tensor dprobabilities = tensor({kRows});
    grouped_activation_backward(context_, {.dx = dinner,
                                           .dprobabilities = dprobabilities,
                                           .dy = dactivated,
                                           .x = inner_,
                                           .offsets = order_.offsets,
                                           .bias = b1_,
                                           .probabilities = probabilities_});
    if (biases_) {
      grouped_bias_dots(
          context_, {.dots = dprobabilities, .dy = douter, .bias = b2_, .offsets = order_.offsets});
      db2 = bias_backward(douter, probabilities_);
      db1 = bias_backward(dinner, {});
    }
    const Tensor drows = linear_backward(dinner, rows_, w1_, dw1);
    const Tensor sums = tensor({kTokens, kWidth});
    unpermute_rows(
        context_,
        {.y = sums, .rows = drows, .row_of_pair = order_.row_of_pair, .probabilities = {}});
    dx = ref::read(sums);
    const Tensor dp = tensor({kTokens, kPairs});
    gather_elements(context_, {.to = dp, .from = dprobabilities, .index = order_.row_of_pair});
    route_backward(x, router, ref::read(dp));
  }

  void route_backward(const ref::Array& x, const ref::Array& router, const ref::Array& dp) {
    const ref::Integers chosen = ref::read_integers(order_.chosen);
    drouter = ref::Array(Shape{kExperts, kWidth});
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const double mean = dp(t, 0) * p(t, 0) + dp(t, 1) * p(t, 1);
      for (std::int64_t i = 0; i < kPairs; ++i) {
        const double dz = p(t, i) * (dp(t, i) - mean);
        for (std::int64_t j = 0; j < kWidth; ++j) {
          drouter(chosen(t, i), j) += dz * x(t, j);
          dx(t, j) += dz * router(chosen(t, i), j);
        }
      }
    }
  }

  Arena arena_{"layer", 1 << 20};
  Arena workspace_{"workspace", 16 << 20};
  Context context_;
  DType dtype_;
  bool biases_;
  SortPairs order_;
  Tensor x_, w1_, w2_, b1_, b2_;
  Tensor rows_, probabilities_, inner_, activated_;
};

void expect_close(double value, double expected, double tolerance, const std::string& what) {
  EXPECT_NEAR(value, expected, tolerance * std::max(1e-2, std::abs(expected))) << what;
}
void expect_row(const ref::Array& x, const std::vector<double>& expected, double tolerance,
                const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expect_close(x.values[i], expected[i], tolerance, what);
  }
}
// Of every expert's part.
void expect_norms(const ref::Array& x, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
  const std::size_t part = x.values.size() / kExperts;
  for (std::size_t e = 0; e < kExperts; ++e) {
    ref::Array of_expert(Shape{static_cast<std::int64_t>(part)});
    std::copy_n(x.values.begin() + static_cast<std::ptrdiff_t>(e * part), part,
                of_expert.values.begin());
    expect_close(norm(of_expert), expected[e], tolerance, what);
  }
}

void expect_plain(const ExpertLayer& layer, double tolerance) {
  EXPECT_EQ(layer.counts, (std::vector<std::int64_t>{4, 4, 4, 0}));
  expect_row(layer.p, {0.997805077, 0.00219492278}, tolerance, "p");
  expect_row(layer.y, {8.75261294, 8.40312044, 5.24208253, 0.78742908}, tolerance, "y");
  expect_row(layer.dx, {19.8589656, 21.8090286, 20.4301511, 16.5960411}, tolerance, "dx");
  expect_close(norm(layer.y), 33.86549283, tolerance, "y");
  expect_close(norm(layer.dx), 66.80632108, tolerance, "dx");
  expect_close(norm(layer.drouter), 0.2278197972, tolerance, "router");
  expect_norms(layer.dw1, {49.662614, 1.7442869, 0.20659283, 0.0}, tolerance, "fc1");
  expect_norms(layer.dw2, {32.745536, 0.9263629, 0.40396858, 0.0}, tolerance, "fc2");
}

void expect_biased(const ExpertLayer& layer, double tolerance) {
  expect_row(layer.y, {9.73361284, 9.35014438, 5.83478309, 0.88466732}, tolerance, "y");
  expect_close(norm(layer.dx), 69.57683697, tolerance, "dx");
  expect_close(norm(layer.drouter), 0.2242993059, tolerance, "router");
  expect_norms(layer.db1, {34.364365, 1.3471747, 0.16333594, 0.0}, tolerance, "fc1's bias");
  expect_norms(layer.db2, {4.3114424, 1.7026889, 0.47058, 0.0}, tolerance, "fc2's bias");
}

TEST(ExpertLayer, OfTheReferenceHasTheNumbers) {
  const auto backend = make_ref_backend();
  expect_plain(ExpertLayer(*backend, DType::kF64, false), 5e-8);
  expect_biased(ExpertLayer(*backend, DType::kF64, true), 5e-8);
}

TEST(ExpertLayer, OfTheCpuHasTheNumbers) {
  const auto backend = make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  expect_plain(ExpertLayer(*backend, DType::kF32, false), 2e-6);
  expect_biased(ExpertLayer(*backend, DType::kF32, true), 2e-6);
}

}  // namespace
}  // namespace phalanx::ops
