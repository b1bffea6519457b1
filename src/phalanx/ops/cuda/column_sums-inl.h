#pragma once
// Sums over rows: of dy (bias gradients), and of dy times the normalised row (weight gradients of
// norms). A block has 64 columns and a number of rows that follows from the shape; warps take every
// eighth row, then warps are added in order. A second kernel adds the blocks' parts in order.

#include "phalanx/ops/cuda/norm-inl.h"

namespace phalanx::cuda {

template <typename T, typename Stream, bool kNorm>
struct ColumnPartsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kColumns = 64;  // of a block
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kSums = kNorm ? 2 : 1;
  struct Params {
    std::int64_t rows;
    std::int64_t places;
    std::int64_t columns;
    std::int64_t rows_of_part;
    NormRows dy_rows;
    NormRows x_rows;
    const T* dy;
    const Stream* x;    // of a norm
    const float* mean;  // of a norm, may be null
    const float* rstd;  // of a norm
    float* parts;       // [blocks of rows, kSums, columns]: of dy, then of dy n
    bool paired;        // two neighbours can be read at once
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return kSums * kWarps * kColumns * static_cast<std::int64_t>(sizeof(float));
  }

  template <typename V>
  PHALANX_DEVICE static void load2(const V* row, std::int64_t c, const Params& p, float (&to)[2]) {
    if (p.paired && c + 2 <= p.columns) {
      const auto pack = load_pack<2>(row + c);
      to[0] = to_float(pack.at[0]);
      to[1] = to_float(pack.at[1]);
    } else {
      to[0] = c < p.columns ? to_float(row[c]) : 0.0F;
      to[1] = c + 1 < p.columns ? to_float(row[c + 1]) : 0.0F;
    }
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    float* shared = t.template shared<float>(kSums * kWarps * kColumns);
    const std::int64_t c = t.block(0) * kColumns + 2 * t.lane();
    const std::int64_t begin = t.block(1) * p.rows_of_part;
    const std::int64_t end = begin + p.rows_of_part < p.rows ? begin + p.rows_of_part : p.rows;
    float sums[2][2] = {};
#pragma unroll 4
    for (std::int64_t r = begin + t.warp(); r < end; r += kWarps) {
      float dy[2];
      load2(p.dy + p.dy_rows.at(r, p.places), c, p, dy);
      sums[0][0] += dy[0];
      sums[0][1] += dy[1];
      if constexpr (kNorm) {
        float x[2];
        load2(p.x + p.x_rows.at(r, p.places), c, p, x);
        const float mean = p.mean != nullptr ? p.mean[r] : 0.0F;
        const float rstd = p.rstd[r];
        sums[1][0] = fma_of(dy[0], (x[0] - mean) * rstd, sums[1][0]);
        sums[1][1] = fma_of(dy[1], (x[1] - mean) * rstd, sums[1][1]);
      }
    }
    for (int k = 0; k < kSums; ++k) {
      float* row = shared + (k * kWarps + t.warp()) * kColumns + 2 * t.lane();
      row[0] = sums[k][0];
      row[1] = sums[k][1];
    }
    t.sync();
    const int column = t.index() % kColumns;
    const int k = t.index() / kColumns;
    const std::int64_t to = t.block(0) * kColumns + column;
    if (k >= kSums || to >= p.columns) return;
    float total = 0.0F;
    for (int w = 0; w < kWarps; ++w) total += shared[(k * kWarps + w) * kColumns + column];
    p.parts[(t.block(1) * kSums + k) * p.columns + to] = total;
  }
};

// sum[c] (+)= parts[0][c] + parts[1][c] + ...
struct JoinPartsKernel {
  static constexpr int kThreads = 128;
  struct Params {
    float* sum;
    const float* parts;
    std::int64_t columns;
    std::int64_t count;   // of parts
    std::int64_t stride;  // elements between them
    bool accumulate;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t c = t.block() * kThreads + t.index();
    if (c >= p.columns) return;
    float sum = 0.0F;
#pragma unroll 8
    for (std::int64_t i = 0; i < p.count; ++i) sum += p.parts[i * p.stride + c];
    p.sum[c] = p.accumulate ? p.sum[c] + sum : sum;
  }
};

}  // namespace phalanx::cuda
