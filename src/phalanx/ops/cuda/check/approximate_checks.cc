#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "phalanx/base/numeric.h"
#include "phalanx/base/philox.h"
#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/activation.h"
#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/check/members-inl.h"
#include "phalanx/ops/cuda/linear.h"
#include "phalanx/ops/cuda/random.h"

namespace phalanx::cuda {
namespace {

// The largest difference, relative to the largest expected number.
double error_of(const std::vector<float>& numbers, const std::vector<double>& expected) {
  double largest = 1e-30;
  double error = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    const double difference = std::fabs(static_cast<double>(numbers[i]) - expected[i]);
    error = std::isnan(difference) ? 1e30 : std::max(error, difference);
  }
  return error / largest;
}

// Half a unit of the last place is what rounding costs.
double rounding(DType type) {
  return type == DType::kBF16 ? 0x1p-8 : type == DType::kF16 ? 0x1p-11 : 0x1p-23;
}

// Each of the approximated functions, relative to its own value.
double functions_error(Workbench& bench, int which) {
  const std::int64_t n = 8192;
  const std::vector<float> x = bench.uniform_floats(n, 1e-3, 8.0);
  const float* in = bench.upload(x);
  const TypedAddress out = bench.output(DType::kF32, 7 * n);
  launch<ApproximateMember>(bench.queue(), {ceil_div(n, ApproximateMember::kThreads)},
                            {in, reinterpret_cast<float*>(out.at), n});
  const std::vector<float> numbers = bench.read_floats(out, 7 * n);
  double error = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double expected[] = {std::exp2(v), 1.0 / std::sqrt(v), std::erfc(v - 4.0),
                               std::log(v),  std::sin(v),        std::cos(v),
                               1.0 / v};
    const double value = numbers[7 * i + static_cast<std::size_t>(which)];
    const double truth = expected[which];
    // Logarithms and sines pass through 0.
    const double size = which >= 3 ? std::max(std::fabs(truth), 1e-3) : std::fabs(truth);
    error = std::max(error, std::fabs(value - truth) / size);
  }
  return error;
}

double activation_value(ops::ActivationKind kind, double x) {
  switch (kind) {
    case ops::ActivationKind::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case ops::ActivationKind::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case ops::ActivationKind::kRelu:
      return std::max(x, 0.0);
    case ops::ActivationKind::kSquaredRelu:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case ops::ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
  }
  return 0.0;
}

double derivative(ops::ActivationKind kind, double x) {
  if (kind == ops::ActivationKind::kRelu) return x > 0 ? 1 : 0;
  const double step = 1e-5;
  return (activation_value(kind, x + step) - activation_value(kind, x - step)) / (2 * step);
}

double activation_error(Workbench& bench, ops::ActivationKind kind, DType type, bool backward) {
  const std::int64_t rows = 37;
  const std::int64_t columns = 200;
  const TypedAddress x = bench.uniform(type, rows * columns, -6, 6);
  const TypedAddress dy = bench.uniform(type, rows * columns, -1, 1);
  const TypedAddress bias = bench.uniform(type, columns, -1, 1);
  const TypedAddress y = bench.output(type, rows * columns);
  const ActivationCall call{rows, columns, kind, bias};
  if (backward) {
    bias_activation_backward(bench.context(), call, y, dy, x);
  } else {
    bias_activation_forward(bench.context(), call, y, x);
  }
  const std::vector<float> xs = bench.read_floats(x, rows * columns);
  const std::vector<float> dys = bench.read_floats(dy, rows * columns);
  const std::vector<float> biases = bench.read_floats(bias, columns);
  std::vector<double> expected;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double biased = static_cast<double>(xs[i]) + biases[i % 200];
    expected.push_back(backward ? dys[i] * derivative(kind, biased)
                                : activation_value(kind, biased));
  }
  return error_of(bench.read_floats(y, rows * columns), expected);
}

double normal_error(Workbench& bench, DType type) {
  const TypedAddress x = bench.output(type, 64 * 40);
  normal(bench.context(),
         {.x = x,
          .rows = 64,
          .columns = 33,
          .row_stride = 40,
          .global_columns = 77,
          .first_row = 3,
          .first_column = 5,
          .key = {7, 9},
          .parameter = 0x123456789abcdefU},
         0.02);
  const std::vector<float> all = bench.read_floats(x, 64 * 40);
  std::vector<float> numbers;
  std::vector<double> expected;
  for (std::uint64_t r = 0; r < 64; ++r) {
    for (std::uint64_t c = 0; c < 33; ++c) {
      const std::uint64_t element = (3 + r) * 77 + 5 + c;
      const PhiloxWords words = philox4x32(
          {7, 9}, {static_cast<std::uint32_t>(element / 4), 0, 0x89abcdefU, 0x01234567U});
      const std::size_t pair = element % 4 / 2 * 2;
      const double radius = std::sqrt(-2.0 * std::log((words[pair] + 1.0) * 0x1p-32));
      const double angle = 2.0 * std::numbers::pi * words[pair + 1] * 0x1p-32;
      expected.push_back(0.02 * radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle)));
      numbers.push_back(all[r * 40 + c]);
    }
  }
  return error_of(numbers, expected);
}

enum class Product { kForward, kForwardBias, kLogits, kInputGradient, kWeightGradient };

double product_error(Workbench& bench, Product product, DType type, bool tf32) {
  const CudaContext& context = bench.with_products();
  const LinearShape shape{72, 136, 264, tf32};
  const auto rows = static_cast<std::size_t>(shape.rows);
  const auto n = static_cast<std::size_t>(shape.n);
  const auto k = static_cast<std::size_t>(shape.k);
  const TypedAddress x = bench.uniform(type, shape.rows * shape.k, -1, 1);
  const TypedAddress w = bench.uniform(type, shape.n * shape.k, -1, 1);
  const TypedAddress dy = bench.uniform(type, shape.rows * shape.n, -1, 1);
  const TypedAddress bias = bench.uniform(type, shape.n, -1, 1);
  const std::vector<float> xs = bench.read_floats(x, shape.rows * shape.k);
  const std::vector<float> ws = bench.read_floats(w, shape.n * shape.k);
  const std::vector<float> dys = bench.read_floats(dy, shape.rows * shape.n);
  const std::vector<float> biases = bench.read_floats(bias, shape.n);
  std::vector<double> expected;
  switch (product) {
    case Product::kForward:
    case Product::kForwardBias:
    case Product::kLogits: {
      const DType to = product == Product::kLogits ? DType::kF32 : type;
      const TypedAddress y = bench.output(to, shape.rows * shape.n);
      const bool biased = product == Product::kForwardBias;
      linear_forward(context, shape, y, x, w, biased ? bias : TypedAddress());
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t j = 0; j < n; ++j) {
          double sum = biased ? biases[j] : 0.0F;
          for (std::size_t i = 0; i < k; ++i) {
            sum += static_cast<double>(xs[r * k + i]) * ws[j * k + i];
          }
          expected.push_back(sum);
        }
      }
      return error_of(bench.read_floats(y, shape.rows * shape.n), expected);
    }
    case Product::kInputGradient: {
      const TypedAddress dx = bench.output(type, shape.rows * shape.k);
      linear_input_gradient(context, shape, dx, dy, w);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < k; ++i) {
          double sum = 0.0;
          for (std::size_t j = 0; j < n; ++j) {
            sum += static_cast<double>(dys[r * n + j]) * ws[j * k + i];
          }
          expected.push_back(sum);
        }
      }
      return error_of(bench.read_floats(dx, shape.rows * shape.k), expected);
    }
    case Product::kWeightGradient: {
      const TypedAddress dw = bench.output(DType::kF32, shape.n * shape.k);
      linear_weight_gradient(context, shape, reinterpret_cast<float*>(dw.at), dy, x, false);
      linear_weight_gradient(context, shape, reinterpret_cast<float*>(dw.at), dy, x, true);
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t i = 0; i < k; ++i) {
          double sum = 0.0;
          for (std::size_t r = 0; r < rows; ++r) {
            sum += static_cast<double>(dys[r * n + j]) * xs[r * k + i];
          }
          expected.push_back(2.0 * sum);
        }
      }
      return error_of(bench.read_floats(dw, shape.n * shape.k), expected);
    }
  }
  return 1e30;
}

}  // namespace

std::vector<ApproximateCheck> approximate_checks() {
  std::vector<ApproximateCheck> checks;
  const char* functions[] = {"exp2", "rsqrt", "erfc", "log", "sin", "cos", "reciprocal"};
  const double tolerances[] = {0x1p-22, 0x1p-21, 0x1p-20, 0x1p-23, 0x1p-23, 0x1p-23, 0x1p-22};
  for (int i = 0; i < 7; ++i) {
    checks.push_back({fmt::format("function {}", functions[i]),
                      [i](Workbench& bench) { return functions_error(bench, i); }, tolerances[i]});
  }
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const auto kind :
         {ops::ActivationKind::kGeluTanh, ops::ActivationKind::kGeluErf, ops::ActivationKind::kRelu,
          ops::ActivationKind::kSquaredRelu, ops::ActivationKind::kSilu}) {
      for (const bool backward : {false, true}) {
        checks.push_back(
            {fmt::format("activation {} {} {}", static_cast<int>(kind),
                         backward ? "backward" : "forward", name_of(type)),
             [=](Workbench& bench) { return activation_error(bench, kind, type, backward); },
             2e-6 + rounding(type)});
      }
    }
    checks.push_back({fmt::format("normal {}", name_of(type)),
                      [=](Workbench& bench) { return normal_error(bench, type); }, rounding(type)});
    const std::pair<Product, const char*> products[] = {
        {Product::kForward, "forward"},
        {Product::kForwardBias, "forward, bias"},
        {Product::kLogits, "forward to f32"},
        {Product::kInputGradient, "input gradient"},
        {Product::kWeightGradient, "weight gradient"}};
    for (const auto& [product, name] : products) {
      const bool to_f32 = product == Product::kLogits || product == Product::kWeightGradient;
      checks.push_back({fmt::format("product {} {}", name, name_of(type)),
                        [product = product, type](Workbench& bench) {
                          return product_error(bench, product, type, false);
                        },
                        2e-6 + (to_f32 ? 0.0 : rounding(type))});
    }
  }
  checks.push_back(
      {"product forward f32 as tf32",
       [](Workbench& bench) { return product_error(bench, Product::kForward, DType::kF32, true); },
       2e-3});
  return checks;
}

}  // namespace phalanx::cuda
