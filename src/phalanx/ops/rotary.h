#pragma once
// Rotary positions (Su et al., RoFormer, 2021): of the first `dimensions` of a head, pairs are
// rotated by the angle position * theta_i, theta_i = base^(-2i / dimensions).

#include <cstdint>

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

}  // namespace phalanx::ops
