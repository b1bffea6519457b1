#pragma once
// ops/elementwise.h on a device.

#include <array>

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// n elements of any type; the value is rounded to it.
void fill(const CudaContext& context, TypedAddress x, std::int64_t n, double value);

// n elements that follow each other, rounded where the type narrows. Equal types of any kind, or
// f32, bf16, f16.
void convert(const CudaContext& context, TypedAddress destination, TypedAddress source,
             std::int64_t n);

// As convert(), with strides in elements; up to 6 dimensions.
struct StridedShape {
  int dims = 0;
  std::array<std::int64_t, 6> extents{};
  std::array<std::int64_t, 6> destination{};
  std::array<std::int64_t, 6> source{};
};
void copy_strided(const CudaContext& context, TypedAddress destination, TypedAddress source,
                  const StridedShape& shape);

// destination += source, in the destination's type: f32, bf16 and f16 in any pair; equal types of
// f64, i64, i32.
void accumulate(const CudaContext& context, TypedAddress destination, TypedAddress source,
                std::int64_t n);

// y = factor x, of one type; y may be x.
void scale(const CudaContext& context, TypedAddress y, TypedAddress x, std::int64_t n,
           double factor);

}  // namespace phalanx::cuda
