#pragma once
// Rotary positions of the queries and keys of self attention (ops/rotary.h). All layers of a stack
// share one constant table of cosines and sines; a column of the batch has the positions.

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class RotaryPositions {
 public:
  // `config` must have rotary.
  RotaryPositions(ParamTable& table, const TransformerConfig& config);

  // Rotates queries or keys in place: [s, b, heads, d] or [s, b, groups, heads per group, d].
  void forward(Pass& pass, const Tensor& heads) const { rotate(pass, heads, false); }
  // Turns gradients of rotated queries or keys into those of unrotated ones, in place.
  void backward(Pass& pass, const Tensor& gradients) const { rotate(pass, gradients, true); }

 private:
  void rotate(Pass& pass, const Tensor& heads, bool inverse) const;

  bool interleaved_;
  std::size_t column_;
  ConstantId table_;
};

}  // namespace phalanx::nn
