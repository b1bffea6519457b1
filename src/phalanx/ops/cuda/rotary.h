#pragma once
// ops/rotary.h on a device.

#include <span>

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct RotaryTableCall {
  float* table = nullptr;  // [positions, 2 pairs]: cosines, then sines
  std::int64_t positions = 0;
  std::span<const double> frequencies;  // of pairs, floats (ops::rotary_frequencies)
  double interpolation = 1.0;
  double attention_factor = 1.0;
};
void rotary_table(const CudaContext& context, const RotaryTableCall& call);

// Heads of a batch [s, b, groups, heads, width], in elements.
struct HeadsOperand {
  TypedAddress data;
  std::int64_t row_stride = 0;
  std::int64_t sample_stride = 0;
  std::int64_t group_stride = 0;
  std::int64_t head_stride = 0;
};

struct RotateCall {
  HeadsOperand y;  // may be x
  HeadsOperand x;
  std::int64_t rows = 0;    // s
  std::int64_t batch = 0;   // b
  std::int64_t groups = 1;  // 1: x has no such dimension
  std::int64_t heads = 0;   // of a group
  std::int64_t width = 0;   // of a head
  // [s, b]: rows of the table. Another is a fault; the kernel goes on with 0.
  const std::int32_t* position = nullptr;
  std::int64_t position_row_stride = 0;
  std::int64_t position_sample_stride = 0;
  const float* table = nullptr;  // [positions, dimensions], dense
  std::int64_t positions = 0;
  std::int64_t dimensions = 0;
  bool interleaved = false;
  bool inverse = false;
};
void rotate(const CudaContext& context, const RotateCall& call);

}  // namespace phalanx::cuda
