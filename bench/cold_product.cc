#include "cold_product.h"

#include <fmt/core.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/linear_products.h"

namespace phalanx::bench {
namespace {

// Of copies: more than a processor's caches.
constexpr std::int64_t kColdBytes = std::int64_t{160} << 20;

void fill_randomly(const Tensor& tensor) {
  std::uint32_t state = 1;
  const auto next = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
  };
  if (tensor.dtype == DType::kBF16) {
    for (bfloat16& value : tensor.span<bfloat16>()) value = to_bfloat16(next());
  } else {
    for (float& value : tensor.span<float>()) value = next();
  }
}

std::int64_t bytes_of(DType dtype, std::int64_t rows, std::int64_t columns) {
  return round_up(rows * columns * size_of(dtype), kArenaAlignment);
}

// What a pass reads or writes of the weights, and its result where that is not their gradient.
std::int64_t cold_bytes_of(const LayerSize& size, Pass pass, DType dtype) {
  switch (pass) {
    case Pass::kForward:
      return bytes_of(dtype, size.n, size.k) + bytes_of(dtype, size.rows, size.n);
    case Pass::kInputGradient:
      return bytes_of(dtype, size.n, size.k) + bytes_of(dtype, size.rows, size.k);
    case Pass::kWeightGradient:
      break;
  }
  return bytes_of(DType::kF32, size.n, size.k);
}

}  // namespace

const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kInputGradient:
      return "input gradient";
    case Pass::kWeightGradient:
      break;
  }
  return "weight gradient";
}

std::vector<LayerPass> layer_passes(std::span<const LayerSize> sizes, const std::string& filter) {
  std::vector<LayerPass> passes;
  for (const LayerSize& size : sizes) {
    for (const Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient}) {
      const std::string row = fmt::format("{}x{}x{} {}", size.rows, size.n, size.k, name_of(pass));
      if (row.find(filter) != std::string::npos) passes.push_back({size, pass});
    }
  }
  if (passes.empty()) {
    throw UsageError("--filter '{}': no row has it: without --filter all rows are shown", filter);
  }
  return passes;
}

std::string to_text(const LayerSize& size) {
  return fmt::format("{} x {} x {}", size.rows, size.n, size.k);
}

ColdProduct::ColdProduct(const LayerSize& size, Pass pass, DType dtype)
    : copies_(std::max<std::int64_t>(2, kColdBytes / cold_bytes_of(size, pass, dtype) + 1)),
      arena_("operands", copies_ * cold_bytes_of(size, pass, dtype) +
                             bytes_of(dtype, size.rows, size.k) +
                             bytes_of(dtype, size.rows, size.n) + bytes_of(dtype, 1, size.n)),
      x_(random(dtype, {size.rows, size.k})),
      dy_(random(dtype, {size.rows, size.n})),
      bias_(random(dtype, {size.n})) {
  for (std::int64_t i = 0; i < copies_; ++i) {
    switch (pass) {
      case Pass::kForward:
        products_.push_back(
            cpu::product_of(ops::LinearForward{.y = random(dtype, {size.rows, size.n}),
                                               .x = x_,
                                               .weight = random(dtype, {size.n, size.k}),
                                               .bias = bias_}));
        break;
      case Pass::kInputGradient:
        products_.push_back(
            cpu::product_of(ops::LinearInputGradient{.dx = random(dtype, {size.rows, size.k}),
                                                     .dy = dy_,
                                                     .weight = random(dtype, {size.n, size.k})}));
        break;
      case Pass::kWeightGradient:
        products_.push_back(cpu::product_of(ops::LinearWeightGradient{
            .dweight = random(DType::kF32, {size.n, size.k}), .dy = dy_, .x = x_}));
    }
  }
}

Tensor ColdProduct::random(DType dtype, const Shape& shape) {
  const Tensor tensor = arena_.allocate(dtype, shape);
  fill_randomly(tensor);
  return tensor;
}

}  // namespace phalanx::bench
