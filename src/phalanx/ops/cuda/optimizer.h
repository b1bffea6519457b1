#pragma once
// The updates of ops/optimizer.h for all segments of a flat buffer in one launch. What changes from
// step to step lies in device memory.

#include <span>
#include <vector>

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct OptimizerSegment;

// A run of elements with the same settings, as the host has it.
struct SegmentRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int32_t group = 0;
};

// The table that kernels read: copied to device memory once.
struct SegmentTable {
  std::vector<std::byte> bytes;  // for device memory aligned to 16
  std::int64_t count = 0;
  std::int64_t blocks = 0;
  bool aligned = true;  // every segment begins at a multiple of 8 elements
};
// Empty segments are left out.
SegmentTable make_segment_table(std::span<const SegmentRange> ranges);

// Operands of both rules; addresses are of the buffer's element 0.
struct OptimizerCall {
  const SegmentTable* table = nullptr;  // its numbers
  const std::byte* segments = nullptr;  // its bytes in device memory
  const float* settings = nullptr;      // [groups, 2]: rate, weight decay
  const float* factor = nullptr;        // [1]
  const float* skip = nullptr;          // [1]
  float* weight = nullptr;
  TypedAddress storage;  // may be absent
  const float* gradient = nullptr;
};

struct AdamCall {
  OptimizerCall common;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  const float* corrections = nullptr;  // [2]: 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};
void adam_segments(const CudaContext& context, const AdamCall& call);

struct SgdCall {
  OptimizerCall common;
  float* momentum_buffer = nullptr;  // null without momentum
  double momentum = 0.0;
};
void sgd_segments(const CudaContext& context, const SgdCall& call);

}  // namespace phalanx::cuda
