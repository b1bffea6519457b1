#pragma once
// Shared by tests of sums: the values of ranks, and the order of additions by its definition.

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/comm/communicator.h"

namespace phalanx::transports {

// The values of rank `rank`: not symmetric in the ranks, of different sizes, and using every bit.
inline std::vector<double> values_of(int rank, DType dtype, std::int64_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 1000 + static_cast<unsigned>(count));
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int64_t>(random() >> 11);
    double value = static_cast<double>(bits % 200);
    if (dtype == DType::kI64 || dtype == DType::kI32) value -= 100.0;
    if (is_floating(dtype))
      value = std::ldexp(static_cast<double>(bits) - 0x1p52, static_cast<int>(bits % 12) - 52);
    values.push_back(value);
  }
  return values;
}

inline double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::kBF16:
      return static_cast<double>(to_float(to_bfloat16(static_cast<float>(value))));
    case DType::kF16:
      return static_cast<double>(to_float(to_float16(static_cast<float>(value))));
    case DType::kF32:
      return static_cast<double>(static_cast<float>(value));
    case DType::kU8:
      return static_cast<double>(static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
    default:
      return value;
  }
}

// Adds blocks of `block` values from left to right, then their sums in the same way. A sum of two
// floats in double, rounded to float, is their sum in float.
inline double tree_sum(std::vector<double> values, int block, DType wide) {
  while (values.size() > 1) {
    std::vector<double> sums;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % static_cast<std::size_t>(block) == 0) {
        sums.push_back(values[i]);
      } else {
        sums.back() = rounded(wide, sums.back() + values[i]);
      }
    }
    values = std::move(sums);
  }
  return values[0];
}

// Element by element: the sum of all inputs, rounded to the type once.
inline std::vector<double> tree_sums(const std::vector<std::vector<double>>& inputs, int block,
                                     DType dtype) {
  const bool sixteen_bits = dtype == DType::kBF16 || dtype == DType::kF16;
  std::vector<double> result;
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    std::vector<double> values;
    for (const auto& input : inputs) values.push_back(rounded(dtype, input[i]));
    result.push_back(
        rounded(dtype, tree_sum(std::move(values), block, sixteen_bits ? DType::kF32 : dtype)));
  }
  return result;
}

}  // namespace phalanx::transports
