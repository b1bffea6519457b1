#include "cold_product.h"

#include <algorithm>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/linear_products.h"

namespace phalanx::bench {
namespace {

// Of copies: more than a processor's caches.
constexpr std::int64_t kColdBytes = std::int64_t{160} << 20;

void fill_randomly(const Tensor& tensor) {
  std::uint32_t state = 1;
  for (float& value : tensor.span<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
  }
}

std::int64_t bytes_of(std::int64_t rows, std::int64_t columns) {
  return round_up(rows * columns * size_of(DType::kF32), kArenaAlignment);
}

// What a pass reads or writes of the weights, and its result where that is not their gradient.
std::int64_t cold_bytes_of(const LayerSize& size, Pass pass) {
  const std::int64_t weight = bytes_of(size.n, size.k);
  switch (pass) {
    case Pass::kForward:
      return weight + bytes_of(size.rows, size.n);
    case Pass::kInputGradient:
      return weight + bytes_of(size.rows, size.k);
    case Pass::kWeightGradient:
      break;
  }
  return weight;
}

}  // namespace

ColdProduct::ColdProduct(const LayerSize& size, Pass pass)
    : copies_(std::max<std::int64_t>(2, kColdBytes / cold_bytes_of(size, pass) + 1)),
      arena_("operands", copies_ * cold_bytes_of(size, pass) + bytes_of(size.rows, size.k) +
                             bytes_of(size.rows, size.n) + bytes_of(1, size.n)),
      x_(random({size.rows, size.k})),
      dy_(random({size.rows, size.n})),
      bias_(random({size.n})) {
  for (std::int64_t i = 0; i < copies_; ++i) {
    const Tensor weight = random({size.n, size.k});
    switch (pass) {
      case Pass::kForward:
        products_.push_back(cpu::product_of(ops::LinearForward{
            .y = random({size.rows, size.n}), .x = x_, .weight = weight, .bias = bias_}));
        break;
      case Pass::kInputGradient:
        products_.push_back(cpu::product_of(ops::LinearInputGradient{
            .dx = random({size.rows, size.k}), .dy = dy_, .weight = weight}));
        break;
      case Pass::kWeightGradient:
        products_.push_back(
            cpu::product_of(ops::LinearWeightGradient{.dweight = weight, .dy = dy_, .x = x_}));
    }
  }
}

Tensor ColdProduct::random(const Shape& shape) {
  const Tensor tensor = arena_.allocate(DType::kF32, shape);
  fill_randomly(tensor);
  return tensor;
}

}  // namespace phalanx::bench
