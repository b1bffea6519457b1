#pragma once
// Sums over rows: of dy (bias gradients), and of dy times the normalised row (weight gradients of
// norms). A block has 64 columns and a number of rows that follows from the shape. A lane has 8
// columns, 8 lanes have a row, a warp has 4 rows: a lane adds every 32nd row in order, then lanes
// are added by butterfly and warps in order. A second kernel adds the blocks' parts in order.

#include "phalanx/ops/cuda/norm-inl.h"

namespace phalanx::cuda {

template <typename T, typename Stream, bool kNorm>
struct ColumnPartsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kColumns = 64;  // of a block
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kSums = kNorm ? 2 : 1;
  static constexpr int kLanes = kColumns / 8;      // of a row
  static constexpr int kStep = kThreads / kLanes;  // rows from one to the next of a lane
  // Rows that a lane loads before it adds them.
  static constexpr int kAhead = kNorm || sizeof(T) == 4 ? 2 : 4;
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
    bool packed;        // rows begin at multiples of 16 bytes
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return kSums * kWarps * kColumns * static_cast<std::int64_t>(sizeof(float));
  }

  // What a lane loads of a row.
  struct Loaded {
    float dy[8];
    float x[kNorm ? 8 : 1];
    float mean;
    float rstd;
  };
  PHALANX_DEVICE static void load(const Params& p, std::int64_t r, std::int64_t c, bool packed,
                                  Loaded& to) {
    load8(p.dy + p.dy_rows.at(r, p.places), c, p.columns, packed, to.dy);
    if constexpr (kNorm) {
      load8(p.x + p.x_rows.at(r, p.places), c, p.columns, packed, to.x);
      const std::int64_t s = statistic_of(r, p.places, p.rows);
      to.mean = p.mean != nullptr ? p.mean[s] : 0.0F;
      to.rstd = p.rstd[s];
    }
  }
  PHALANX_DEVICE static void add(const Loaded& row, float (&sums)[kSums][8]) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      sums[0][e] += row.dy[e];
      if constexpr (kNorm) {
        sums[1][e] = fma_of(row.dy[e], (row.x[e] - row.mean) * row.rstd, sums[1][e]);
      }
    }
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    float* shared = t.template shared<float>(kSums * kWarps * kColumns);
    const int lane = t.index() % kLanes;
    const std::int64_t c = t.block(0) * kColumns + 8 * lane;
    const std::int64_t begin = t.block(1) * p.rows_of_part;
    const std::int64_t end = begin + p.rows_of_part < p.rows ? begin + p.rows_of_part : p.rows;
    float sums[kSums][8] = {};
    std::int64_t r = begin + t.index() / kLanes;
    if (p.packed && c + 8 <= p.columns) {
      for (; r + (kAhead - 1) * kStep < end; r += kAhead * kStep) {
        Loaded ahead[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) load(p, r + j * kStep, c, true, ahead[j]);
#pragma unroll
        for (int j = 0; j < kAhead; ++j) add(ahead[j], sums);
      }
    }
    for (; r < end; r += kStep) {
      Loaded row;
      load(p, r, c, p.packed, row);
      add(row, sums);
    }
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        for (int mask = kLanes; mask < 32; mask *= 2) {
          sums[k][e] += t.shuffle_xor(sums[k][e], mask);
        }
        if (t.lane() < kLanes)
          shared[(k * kWarps + t.warp()) * kColumns + 8 * lane + e] = sums[k][e];
      }
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
