// Products of groups on tensor cores against double: small groups and large ones, which have tiles
// of 64 and of 128 rows, one without rows, and rows that belong to no group.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/grouped_linear.h"

namespace phalanx::cuda {
namespace {

// The depth of each product is several steps of 32 and a part of one.
constexpr std::int64_t kN = 136;
constexpr std::int64_t kK = 296;

class GroupedCheck {
 public:
  // `offsets` of groups among rows, whose number is that of the last one and 3.
  GroupedCheck(Workbench& bench, DType type, const std::vector<std::int32_t>& offsets)
      : bench_(bench),
        type_(type),
        offsets_(offsets),
        groups_{bench.upload(offsets), static_cast<std::int64_t>(offsets.size()) - 1,
                offsets.back() + 3},
        x_(bench.uniform(type, groups_.rows * kK, -1, 1)),
        dy_(bench.uniform(type, groups_.rows * kN, -1, 1)),
        weight_(bench.uniform(type, groups_.groups * kN * kK, -1, 1)),
        xs_(bench.read_floats(x_, groups_.rows * kK)),
        dys_(bench.read_floats(dy_, groups_.rows * kN)),
        weights_(bench.read_floats(weight_, groups_.groups * kN * kK)) {}

  double forward_error() {
    const TypedAddress y = bench_.output(type_, groups_.rows * kN);
    const TypedAddress bias = bench_.uniform(type_, groups_.groups * kN, -1, 1);
    const std::vector<float> factors = bench_.uniform_floats(groups_.rows, 0, 1);
    grouped_linear_forward(bench_.context(), groups_, {y, kN}, {x_, kK}, matrices(weight_),
                           {bias, kN}, bench_.upload(factors));
    const std::vector<float> found = bench_.read_floats(y, groups_.rows * kN);
    const std::vector<float> biases = bench_.read_floats(bias, groups_.groups * kN);
    for_rows([&](std::int64_t group, std::int64_t row) {
      for (std::int64_t j = 0; j < kN; ++j) {
        double sum = static_cast<double>(at(factors, row)) * at(biases, group * kN + j);
        for (std::int64_t i = 0; i < kK; ++i) {
          sum += static_cast<double>(at(xs_, row * kK + i)) * weight(group, j, i);
        }
        compare(at(found, row * kN + j), sum);
      }
    });
    return error_ / largest_;
  }

  double input_gradient_error() {
    const TypedAddress dx = bench_.output(type_, groups_.rows * kK);
    grouped_linear_input_gradient(bench_.context(), groups_, {dx, kK}, {dy_, kN},
                                  matrices(weight_));
    const std::vector<float> found = bench_.read_floats(dx, groups_.rows * kK);
    for_rows([&](std::int64_t group, std::int64_t row) {
      for (std::int64_t i = 0; i < kK; ++i) {
        double sum = 0.0;
        for (std::int64_t j = 0; j < kN; ++j) {
          sum += static_cast<double>(at(dys_, row * kN + j)) * weight(group, j, i);
        }
        compare(at(found, row * kK + i), sum);
      }
    });
    return error_ / largest_;
  }

  // Written once, and added once.
  double weight_gradient_error() {
    const std::int64_t n = groups_.groups * kN * kK;
    const TypedAddress dweight = bench_.output(DType::kF32, n);
    for (const bool accumulate : {false, true}) {
      grouped_linear_weight_gradient(bench_.context(), groups_, matrices(dweight), {dy_, kN},
                                     {x_, kK}, accumulate);
    }
    const std::vector<float> found = bench_.read_floats(dweight, n);
    std::vector<double> expected(static_cast<std::size_t>(n), 0.0);
    for_rows([&](std::int64_t group, std::int64_t row) {
      for (std::int64_t j = 0; j < kN; ++j) {
        const double factor = 2.0 * static_cast<double>(at(dys_, row * kN + j));
        double* const to = expected.data() + (group * kN + j) * kK;
        for (std::int64_t i = 0; i < kK; ++i) to[i] += factor * at(xs_, row * kK + i);
      }
    });
    for (std::size_t i = 0; i < expected.size(); ++i) compare(found[i], expected[i]);
    return error_ / largest_;
  }

 private:
  static float at(const std::vector<float>& numbers, std::int64_t i) {
    return numbers[static_cast<std::size_t>(i)];
  }
  static GroupedMatrices matrices(TypedAddress data) { return {data, kN * kK, kN, kK}; }
  float weight(std::int64_t group, std::int64_t j, std::int64_t i) const {
    return at(weights_, (group * kN + j) * kK + i);
  }
  template <typename Use>
  void for_rows(const Use& use) const {
    for (std::int64_t group = 0; group < groups_.groups; ++group) {
      const auto i = static_cast<std::size_t>(group);
      for (std::int64_t row = offsets_[i]; row < offsets_[i + 1]; ++row) use(group, row);
    }
  }
  void compare(float found, double expected) {
    const double difference = std::fabs(static_cast<double>(found) - expected);
    largest_ = std::max(largest_, std::fabs(expected));
    error_ = std::isnan(difference) ? 1e30 : std::max(error_, difference);
  }

  Workbench& bench_;
  DType type_;
  std::vector<std::int32_t> offsets_;
  GroupedRows groups_;
  TypedAddress x_, dy_, weight_;
  std::vector<float> xs_, dys_, weights_;
  double largest_ = 1e-30;
  double error_ = 0.0;
};

}  // namespace

std::vector<ApproximateCheck> grouped_checks() {
  std::vector<ApproximateCheck> checks;
  for (const DType type : {DType::kBF16, DType::kF16}) {
    const double rounding = type == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    for (const std::vector<std::int32_t>& offsets :
         {std::vector<std::int32_t>{2, 72, 72, 75, 140}, std::vector<std::int32_t>{0, 259}}) {
      const auto add = [&](const char* what, double tolerance, double (GroupedCheck::*error)()) {
        checks.push_back(
            {fmt::format("{} of {} groups {}", what, offsets.size() - 1, name_of(type)),
             [=](Workbench& bench) { return (GroupedCheck(bench, type, offsets).*error)(); },
             tolerance});
      };
      add("forward", 4e-6 + rounding, &GroupedCheck::forward_error);
      add("input gradient", 4e-6 + rounding, &GroupedCheck::input_gradient_error);
      add("weight gradient", 4e-6, &GroupedCheck::weight_gradient_error);
    }
  }
  return checks;
}

}  // namespace phalanx::cuda
