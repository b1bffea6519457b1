#pragma once
// What the tests of routers share: six tokens with eight experts, on the reference in f64 and on
// the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {

inline constexpr std::int64_t kTokens = 6;
inline constexpr std::int64_t kExperts = 8;

inline double logit(std::int64_t t, std::int64_t e) {
  return 2.0 * std::sin(0.37 * static_cast<double>((t + 1) * (e + 2)));
}
// The derivative of a loss by the probability of an expert.
inline double cotangent(std::int64_t t, std::int64_t e) {
  return std::cos(0.5 * static_cast<double>(t) + 0.3 * static_cast<double>(e));
}

inline constexpr RouterRule kFirst{.score = RouterScore::kSoftmaxFirst};
inline constexpr RouterRule kSigmoid{.score = RouterScore::kSigmoid};
inline constexpr RouterRule kScaledSigmoid{.score = RouterScore::kSigmoid, .scaling = 2.5};
inline constexpr RouterRule kSqrtSoftplus{.score = RouterScore::kSqrtSoftplus};
inline constexpr RouterRule kGroupsWithBias{
    .score = RouterScore::kSigmoid, .groups = 4, .group_topk = 2, .group_best = 2, .scaling = 2.5};
inline constexpr RouterRule kGroupsByMaximum{.score = RouterScore::kSoftmaxFirst,
                                             .groups = 4,
                                             .group_topk = 2,
                                             .group_best = 1,
                                             .scaling = 1.5};
inline const std::vector<double> kBias = {-.9, .3, -.8, .2, -.7, .1, .4, -.2};

struct RouterMachine {
  const char* name;
  DType type;
  double tolerance;  // of numbers of ten digits
};

class RouterNumbers : public testing::TestWithParam<RouterMachine> {
 protected:
  DType type() const { return GetParam().type; }
  Tensor empty(DType dtype, const Shape& shape) { return arena_.allocate(dtype, shape); }
  Tensor values(const Shape& shape, const std::vector<double>& contents) {
    Tensor tensor = empty(type(), shape);
    ref::Array array(shape);
    array.values = contents;
    ref::write(tensor, array);
    return tensor;
  }
  // Of the tokens [first, first + count).
  Tensor logits(std::int64_t first = 0, std::int64_t count = kTokens) {
    std::vector<double> z;
    for (std::int64_t t = first; t < first + count; ++t) {
      for (std::int64_t e = 0; e < kExperts; ++e) z.push_back(logit(t, e));
    }
    return values({count, kExperts}, z);
  }

  struct Routed {
    Tensor experts, probabilities;

    std::vector<std::string> digits() const {
      const ref::Integers all = ref::read_integers(experts);
      std::vector<std::string> texts;
      for (std::int64_t t = 0; t < all.shape[0]; ++t) {
        std::string& text = texts.emplace_back();
        for (std::int64_t j = 0; j < all.shape[1]; ++j) {
          if (all(t, j) >= 0) text += static_cast<char>('0' + all(t, j));
        }
      }
      return texts;
    }
    // The sum of p * cotangent.
    double loss() const {
      const ref::Integers all = ref::read_integers(experts);
      const ref::Array p = ref::read(probabilities);
      double sum = 0.0;
      for (std::int64_t t = 0; t < all.shape[0]; ++t) {
        for (std::int64_t j = 0; j < all.shape[1]; ++j) {
          sum += p(t, j) * cotangent(t, std::max<std::int64_t>(0, all(t, j)));
        }
      }
      return sum;
    }
  };
  Routed route(const Tensor& z, const RouterRule& rule, std::int64_t chosen, const Tensor& bias) {
    const Shape shape{z.shape[0], chosen};
    const Routed routed{empty(DType::kI32, shape), empty(type(), shape)};
    router_forward(context_, {.experts = routed.experts,
                              .probabilities = routed.probabilities,
                              .logits = z,
                              .bias = bias,
                              .rule = rule});
    return routed;
  }

  // The derivatives of the sum of p * cotangent by the logits.
  ref::Array gradient_of(const Tensor& z, const RouterRule& rule, const Tensor& experts) {
    const ref::Integers all = ref::read_integers(experts);
    std::vector<double> dp;
    for (std::int64_t t = 0; t < all.shape[0]; ++t) {
      for (std::int64_t j = 0; j < all.shape[1]; ++j) dp.push_back(cotangent(t, all(t, j)));
    }
    return backward({.dlogits = empty(type(), z.shape),
                     .dprobabilities = values(experts.shape, dp),
                     .logits = z,
                     .experts = experts,
                     .rule = rule});
  }
  // The derivatives of balancing losses alone.
  ref::Array balance_gradient_of(const Tensor& z, RouterScore score, const Tensor& dscores,
                                 double z_loss = 0.0) {
    const Tensor experts = empty(DType::kI32, {z.shape[0], 1});
    write_integers(experts, ref::Integers(experts.shape));
    return backward(
        {.dlogits = empty(type(), z.shape),
         .dprobabilities =
             values(experts.shape, std::vector<double>(static_cast<std::size_t>(z.shape[0]), 0.0)),
         .logits = z,
         .experts = experts,
         .rule = {.score = score},
         .dscores = dscores,
         .z_loss = z_loss,
         .scale = values({1}, {1.0})});
  }
  ref::Array backward(const RouterBackward& op) {
    router_backward(context_, op);
    return ref::read(op.dlogits);
  }

  struct Balance {
    Tensor counts, score_sums, z_loss;
  };
  Balance balance(const Tensor& z, std::int64_t sequences, std::int64_t chosen, RouterScore score,
                  double z_factor = 1.0) {
    const Shape shape{sequences, kExperts};
    const Balance found{empty(DType::kI32, shape), empty(DType::kF64, shape), zero()};
    balance_statistics(context_, {.counts = found.counts,
                                  .score_sums = found.score_sums,
                                  .z_loss = found.z_loss,
                                  .logits = z,
                                  .chosen = chosen,
                                  .score = score,
                                  .z_factor = z_factor});
    return found;
  }
  double loss_of(const Tensor& counts, const Tensor& score_sums, double factor) {
    const Tensor loss = zero();
    balance_loss(context_,
                 {.loss = loss, .counts = counts, .score_sums = score_sums, .factor = factor});
    return ref::read_scalar(loss);
  }
  Tensor dscores_of(const Tensor& counts, double factor) {
    const Tensor dscores = empty(type(), counts.shape);
    balance_gradient(
        context_,
        {.dscores = dscores, .counts = counts, .scale = values({1}, {1.0}), .factor = factor});
    return dscores;
  }
  Tensor zero() {
    const Tensor number = empty(DType::kF64, {1});
    ref::write_scalar(number, 0.0);
    return number;
  }

  static double norm(const std::vector<double>& x) {
    double sum = 0.0;
    for (const double value : x) sum += value * value;
    return std::sqrt(sum);
  }
  auto are_near(const std::vector<double>& expected) const {
    return testing::Pointwise(testing::DoubleNear(tolerance_), expected);
  }
  static std::vector<double> first_of(const ref::Array& rows, std::size_t count) {
    return {rows.values.begin(), rows.values.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  Arena arena_{"test", 1 << 20};
  Arena workspace_{"workspace", 1 << 20};
  std::unique_ptr<Backend> backend_ = type() == DType::kF64
                                          ? make_ref_backend()
                                          : make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  Context context_{.backend = *backend_, .workspace = workspace_};
  double tolerance_ = GetParam().tolerance;
};

inline auto router_machines() {
  return testing::Values(RouterMachine{"Reference", DType::kF64, 1e-9},
                         RouterMachine{"Cpu", DType::kF32, 3e-7});
}
inline std::string router_machine_name(const testing::TestParamInfo<RouterMachine>& instance) {
  return instance.param.name;
}

}  // namespace phalanx::ops
