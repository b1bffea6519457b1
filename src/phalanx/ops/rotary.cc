#include "phalanx/ops/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// The power of two floats rounded to a float goes through double, so that no machine's library
// shows.
template <typename Real>
Real power(double base, Real exponent) {
  return static_cast<Real>(std::pow(base, static_cast<double>(exponent)));
}

// Long wavelengths are divided by the factor, short ones stay, those between go over.
template <typename Real>
Real llama3_frequency(const Rotary& rotary, Real theta) {
  const auto wavelength = static_cast<Real>(2.0 * std::numbers::pi) / theta;
  const auto original = static_cast<Real>(rotary.original_positions);
  const auto divided = theta / static_cast<Real>(rotary.factor);
  if (wavelength > static_cast<Real>(rotary.original_positions / rotary.low_frequency)) {
    return divided;
  }
  if (wavelength < static_cast<Real>(rotary.original_positions / rotary.high_frequency)) {
    return theta;
  }
  const Real kept = (original / wavelength - static_cast<Real>(rotary.low_frequency)) /
                    static_cast<Real>(rotary.high_frequency - rotary.low_frequency);
  return (Real(1) - kept) * divided + kept * theta;
}

// Pair i is divided by the factor from `high` on and stays up to `low`.
struct YarnRamp {
  explicit YarnRamp(const Rotary& rotary)
      : low(pair_of(rotary, rotary.beta_fast)), high(pair_of(rotary, rotary.beta_slow)) {
    if (rotary.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(rotary.dimensions - 1));
    if (low == high) high += 0.001;
  }

  // That turns so often over the original positions.
  static double pair_of(const Rotary& rotary, double turns) {
    return static_cast<double>(rotary.dimensions) *
           std::log(rotary.original_positions / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rotary.base));
  }
  template <typename Real>
  Real divided(std::int64_t pair) const {
    const Real place =
        (static_cast<Real>(pair) - static_cast<Real>(low)) / static_cast<Real>(high - low);
    return std::clamp(place, Real(0), Real(1));
  }

  double low, high;
};

template <typename Real>
std::vector<double> frequencies(const Rotary& rotary) {
  std::vector<double> result;
  const YarnRamp ramp(rotary);
  for (std::int64_t i = 0; 2 * i < rotary.dimensions; ++i) {
    const Real exponent = static_cast<Real>(2 * i) / static_cast<Real>(rotary.dimensions);
    Real theta = Real(1) / power(rotary.base, exponent);
    if (rotary.scaling == Rotary::Scaling::kLlama3) theta = llama3_frequency(rotary, theta);
    if (rotary.scaling == Rotary::Scaling::kYarn) {
      const Real share = ramp.divided<Real>(i);
      theta = theta / static_cast<Real>(rotary.factor) * share + theta * (Real(1) - share);
    }
    result.push_back(static_cast<double>(theta));
  }
  return result;
}

// Bytes of the table's rows that `x` needs, at most one a row of the batch.
std::int64_t table_bytes(const Rotate& op) {
  return std::min(op.position.count(), op.table.shape[0]) * op.table.shape[1] *
         size_of(op.table.dtype);
}

}  // namespace

std::vector<double> rotary_frequencies(const Rotary& rotary, DType precision) {
  PHALANX_CHECK(rotary.dimensions > 0 && rotary.dimensions % 2 == 0,
                "{} rotary dimensions: a positive even number was expected", rotary.dimensions);
  return precision == DType::kF64 ? frequencies<double>(rotary) : frequencies<float>(rotary);
}

OpCost cost(const RotaryTable& op) { return memory_cost("rotary_table", 0, moved(op.table)); }
OpCost cost(const Rotate& op) {
  return memory_cost("rotate", moved(op.x, op.position) + table_bytes(op), moved(op.y));
}

void rotary_table(Context& context, const RotaryTable& op) {
  expect_full_precision("rotary_table", "table", op.table,
                        {op.table.shape[0], op.rotary.dimensions});
  expect_contiguous("rotary_table", op.table);
  enqueue(context, op);
}

void rotate(Context& context, const Rotate& op) {
  const Shape& shape = op.x.shape;
  PHALANX_CHECK(shape.rank() == 4 || shape.rank() == 5, "rotate: heads {}", shape.to_string());
  expect_shape("rotate", "y", op.y, shape, op.x.dtype);
  expect_shape("rotate", "position", op.position, {shape[0], shape[1]}, DType::kI32);
  expect_full_precision("rotate", "table", op.table, {op.table.shape[0], op.table.shape[1]});
  PHALANX_CHECK(op.table.shape[1] % 2 == 0 && op.table.shape[1] <= shape.back(),
                "rotate: {} dimensions of heads of {}", op.table.shape[1], shape.back());
  expect_floating("rotate", "x", op.x);
  expect_contiguous("rotate", op.table);
  expect_dense_last("rotate", op.x, op.y);
  enqueue(context, op);
}

}  // namespace phalanx::ops
