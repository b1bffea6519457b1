#pragma once
// Rotary positions of the queries and keys of self attention (ops/rotary.h). The table of cosines
// and sines is one constant for all layers of a stack; positions are what the batch's column says.

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class RotaryPositions {
 public:
  // `config` has rotary.
  RotaryPositions(ParamTable& table, const TransformerConfig& config);

  // Rotates queries or keys in place: [s, b, heads, d] or [s, b, groups, heads per group, d].
  void forward(Pass& pass, const Tensor& heads) const { rotate(pass, heads, false); }
  // Turns gradients of rotated queries or keys, in place, into those of the unrotated ones.
  void backward(Pass& pass, const Tensor& gradients) const { rotate(pass, gradients, true); }

 private:
  void rotate(Pass& pass, const Tensor& heads, bool inverse) const;

  bool interleaved_;
  std::size_t column_;
  ConstantId table_;
};

}  // namespace phalanx::nn
