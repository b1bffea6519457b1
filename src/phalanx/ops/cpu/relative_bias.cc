// The bias of a head depends only on key - query: a line of sq + sk - 1 numbers. The row of a query
// is a window of this line.

#include <algorithm>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/scalar.h"

namespace phalanx::cpu {
namespace {

struct BiasLine {
  explicit BiasLine(const Tensor& bias)
      : queries(bias.shape[1]),
        keys(bias.shape[2]),
        size(std::max<std::int64_t>(0, queries + keys - 1)) {}

  // The start of a query's window. The place in the line grows with key - query.
  std::int64_t window(std::int64_t query) const { return queries - 1 - query; }
  // The bucket of a place.
  template <typename Op>
  std::int64_t bucket(const Op& op, std::int64_t place) const {
    return ops::relative_bucket(op.buckets, place - (queries - 1) - op.first_query);
  }

  std::int64_t queries, keys, size;
};

template <typename T>
void make_lines(const CpuDevice& device, const ops::RelativeBiasForward& op, const BiasLine& line,
                float* lines) {
  const T* table = dense<T>(op.table);
  const std::int64_t heads = op.bias.shape[0];
  const Blocks blocks = row_blocks(line.size, heads);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    for (std::int64_t place = blocks.begin(block); place < blocks.end(block); ++place) {
      const T* row = table + line.bucket(op, place) * op.table.shape[1] + op.first_head;
      for (std::int64_t h = 0; h < heads; ++h) {
        lines[h * line.size + place] = static_cast<float>(widen(row[h]));
      }
    }
  });
}

void make_lines(const CpuDevice& device, const ops::RelativeBiasForward& op, const BiasLine& line,
                float* lines) {
  switch (op.table.dtype) {
    case DType::kF32:
      return make_lines<float>(device, op, line, lines);
    case DType::kBF16:
      return make_lines<bfloat16>(device, op, line, lines);
    case DType::kF16:
      return make_lines<float16>(device, op, line, lines);
    default:
      throw InternalError("relative_bias_forward: the CPU takes f32, bf16 and f16, not {}",
                          name_of(op.table.dtype));
  }
}

}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::RelativeBiasForward& op) {
  return op.bias.shape[0] * BiasLine(op.bias).size * size_of(DType::kF32);
}
std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::RelativeBiasBackward& op) {
  return op.dbias.shape[0] * (BiasLine(op.dbias).size + op.buckets.count) * size_of(DType::kF64);
}

void execute(CpuDevice& device, const ops::RelativeBiasForward& op, const Tensor& scratch) {
  const BiasLine line(op.bias);
  auto* lines = reinterpret_cast<float*>(scratch.data());
  float* bias = dense<float>(op.bias);
  make_lines(device, op, line, lines);
  const Blocks blocks = row_blocks(op.bias.shape[0] * line.queries, line.keys);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
      const float* own = lines + row / line.queries * line.size;
      std::copy_n(own + line.window(row % line.queries), line.keys, bias + row * line.keys);
    }
  });
}

void execute(CpuDevice& device, const ops::RelativeBiasBackward& op, const Tensor& scratch) {
  const BiasLine line(op.dbias);
  auto* lines = reinterpret_cast<double*>(scratch.data());
  const float* dbias = dense<float>(op.dbias);
  float* dtable = dense<float>(op.dtable);
  const std::int64_t stride = op.dtable.shape[1];
  parallel_for(device.threads, op.dbias.shape[0], [&](std::int64_t h) {
    // Sums of the line, then of the buckets.
    double* own = lines + h * (line.size + op.buckets.count);
    double* of_bucket = own + line.size;
    std::fill_n(own, line.size + op.buckets.count, 0.0);
    for (std::int64_t i = 0; i < line.queries; ++i) {
      const float* row = dbias + (h * line.queries + i) * line.keys;
      double* sums = own + line.window(i);
      for (std::int64_t j = 0; j < line.keys; ++j) sums[j] += row[j];
    }
    for (std::int64_t place = 0; place < line.size; ++place) {
      of_bucket[line.bucket(op, place)] += own[place];
    }
    float* column = dtable + op.first_head + h;
    for (std::int64_t bucket = 0; bucket < op.buckets.count; ++bucket) {
      column[bucket * stride] = static_cast<float>(column[bucket * stride] + of_bucket[bucket]);
    }
  });
}

}  // namespace phalanx::cpu
