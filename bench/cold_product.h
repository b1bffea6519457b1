#pragma once
// Products of linear layers whose weights and results are in no cache, as in a training step.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "phalanx/ops/cpu/matrix_product.h"
#include "phalanx/tensor/arena.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx::bench {

enum class Pass { kForward, kInputGradient, kWeightGradient };  // with a bias; -; added

struct LayerSize {
  std::int64_t rows, n, k;  // of y[rows, n] = x[rows, k] W[n, k]^T
};

const char* name_of(Pass pass);

// A pass of a layer: a row of a bench.
struct LayerPass {
  LayerSize size;
  Pass pass;
};
// All passes of these layers whose text, "1024x768x768 forward", contains the filter. UsageError
// where none does.
std::vector<LayerPass> layer_passes(std::span<const LayerSize> sizes, const std::string& filter);
// "1024 x 768 x 768"
std::string to_text(const LayerSize& size);

// One product of random numbers, with so many copies of the weights (or their gradients) and of the
// result that no cache holds them. All copies have the same numbers.
class ColdProduct {
 public:
  // Tensors are of `dtype`, gradients of weights of fp32.
  ColdProduct(const LayerSize& size, Pass pass, DType dtype = DType::kF32);

  // The product with the next copies; there are two or more.
  const cpu::MatrixProduct& next() { return products_[next_++ % products_.size()]; }

 private:
  Tensor random(DType dtype, const Shape& shape);

  std::int64_t copies_;
  Arena arena_;
  Tensor x_, dy_, bias_;
  std::vector<cpu::MatrixProduct> products_;
  std::size_t next_ = 0;
};

}  // namespace phalanx::bench
