#pragma once
// Rotary positions (Su et al., RoFormer, 2021): of the first `dimensions` of a head, pairs are
// rotated by the angle position * theta_i, theta_i = base^(-2i / dimensions). Cosines and sines are
// a table that is made once, as long as there are positions.

#include <cstdint>
#include <vector>

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// Which angles. Frequencies are rounded to f32, and an angle is the f32 product with the position,
// as other programs have it.
struct Rotary {
  std::int64_t dimensions = 0;  // even, at most the head's size
  double base = 10000.0;
  // Pairs are (2i, 2i + 1); else (i, i + dimensions / 2).
  bool interleaved = false;
  double interpolation = 1.0;  // positions are divided by it

  enum class Scaling : std::uint8_t { kNone, kLlama3, kYarn };
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double original_positions = 8192.0;  // that the model was trained with before it was scaled
  // Llama 3: wavelengths above original / low_frequency are divided by the factor, those below
  // original / high_frequency stay.
  double low_frequency = 1.0;
  double high_frequency = 4.0;
  // YaRN (Peng et al., 2023): rotations within original_positions between which frequencies go over
  // from kept to divided; cosines and sines are multiplied by attention_factor.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  // the dimensions that they give are rounded outwards
  double attention_factor = 1.0;

  friend bool operator==(const Rotary&, const Rotary&) = default;
};

// theta_i, i < dimensions / 2, scaled. All arithmetic is in this precision (f32 or f64).
std::vector<double> rotary_frequencies(const Rotary& rotary, DType precision);

// Row p: the cosines of the angles of position p, then their sines, times the attention factor.
struct RotaryTable {
  Tensor table;  // [positions, dimensions], f32
  Rotary rotary;
};

// y = x, of whose heads the first `dimensions` are rotated; y may be x. The inverse turns back and
// multiplies with the attention factor once more: the derivative of the one by its input is the
// other.
struct Rotate {
  Tensor y;         // as x
  Tensor x;         // [s, b, heads, d] or [s, b, groups, heads per group, d]; d is dense
  Tensor position;  // [s, b], i32: rows of the table
  Tensor table;     // [positions, dimensions], f32
  bool interleaved = false;
  bool inverse = false;
};

OpCost cost(const RotaryTable& op);
OpCost cost(const Rotate& op);

void rotary_table(Context& context, const RotaryTable& op);
void rotate(Context& context, const Rotate& op);

}  // namespace phalanx::ops
