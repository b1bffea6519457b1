#pragma once
// ops/permute.h: pairs sorted by expert (id_sort-inl.h), rows moved to their places, and the sums
// of a token's rows.

#include "phalanx/ops/cuda/dot-inl.h"
#include "phalanx/ops/cuda/elementwise-inl.h"
#include "phalanx/ops/cuda/fault-inl.h"
#include "phalanx/ops/cuda/id_sort-inl.h"

namespace phalanx::cuda {

// From sorted keys to both maps, and the offsets of experts.
struct PairOrderKernel {
  static constexpr int kThreads = 256;
  struct Params {
    std::int32_t* offsets;      // [experts + 1]
    std::int32_t* pair_of_row;  // [rows]
    std::int32_t* row_of_pair;  // [pairs]
    const std::int32_t* chosen;
    const std::uint64_t* keys;
    std::int64_t pairs;
    std::int64_t rows;
    std::int64_t first;  // the expert of the first offset
    std::int64_t experts;
    std::int64_t all_experts;
    std::int64_t padded;  // rows of an expert; 0: as many as it has pairs
    FaultReport faults;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  // How many keys are of experts below this one.
  PHALANX_DEVICE static std::int64_t keys_below(const Params& p, std::int64_t expert) {
    std::int64_t low = 0;
    std::int64_t high = p.pairs;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (id_of(p.keys[middle]) < static_cast<std::uint32_t>(expert)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  // The key whose pair a row has, or -1.
  PHALANX_DEVICE static std::int64_t key_of_row(const Params& p, std::int64_t row) {
    if (p.padded == 0) {
      const std::int64_t key = keys_below(p, p.first) + row;
      return key < keys_below(p, p.first + p.experts) ? key : -1;
    }
    const std::int64_t expert = p.first + row / p.padded;
    const std::int64_t key = keys_below(p, expert) + row % p.padded;
    return key < keys_below(p, expert + 1) ? key : -1;
  }
  // The row of a key's pair, or -1.
  PHALANX_DEVICE static std::int64_t row_of_key(const Params& p, std::int64_t key) {
    const std::uint32_t id = id_of(p.keys[key]);
    if (id == kNoId) return -1;
    const std::int64_t expert = static_cast<std::int64_t>(id) - p.first;
    if (expert < 0 || expert >= p.experts) return -1;
    if (p.padded == 0) return key - keys_below(p, p.first);
    const std::int64_t place = key - keys_below(p, id);
    return place < p.padded ? expert * p.padded + place : -1;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i <= p.experts) {
      const std::int64_t offset =
          p.padded > 0 ? i * p.padded : keys_below(p, p.first + i) - keys_below(p, p.first);
      p.offsets[i] = static_cast<std::int32_t>(offset);
    }
    if (i < p.rows) {
      const std::int64_t key = key_of_row(p, i);
      p.pair_of_row[i] = key < 0 ? -1 : static_cast<std::int32_t>(row_of(p.keys[key]));
    }
    if (i >= p.pairs) return;
    const std::int64_t pair = row_of(p.keys[i]);
    p.row_of_pair[pair] = static_cast<std::int32_t>(row_of_key(p, i));
    if (id_of(p.keys[i]) == kNoId && p.chosen[pair] >= 0) {
      report_fault(t, p.faults, pair, p.chosen[pair], p.all_experts);
    }
  }
};

// to[r] = (p) from[token].
template <typename T>
struct PermuteRowsKernel : ByEight {
  struct Params {
    T* to;
    const T* from;
    const std::int32_t* pair_of_row;
    const float* probabilities;  // may be null
    std::int64_t to_stride;
    std::int64_t from_stride;
    std::int64_t rows;
    std::int64_t pairs;
    std::int64_t k;
    std::int64_t columns;
    std::int64_t packs;  // of a row
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const auto [r, i] = place_of_pack(t.block() * kThreads + t.index(), p.packs);
    if (r >= p.rows) return;
    const std::int64_t pair = p.pair_of_row[r];
    if (pair < 0 || pair >= p.pairs) return;
    float values[8];
    load8(p.from + pair / p.k * p.from_stride, i, p.columns, p.packed, values);
    if (p.probabilities != nullptr) {
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] *= p.probabilities[pair];
    }
    store8(p.to + r * p.to_stride, i, p.columns, p.packed, values);
  }
};

// y[t] = the sum of a token's rows, by ascending row. A thread has 8 columns and looks for the next
// row among the pairs.
template <typename T, typename Sum>
struct UnpermuteRowsKernel : ByEight {
  struct Params {
    Sum* y;
    const T* rows;
    const std::int32_t* row_of_pair;
    const float* probabilities;  // may be null
    std::int64_t y_stride;
    std::int64_t rows_stride;
    std::int64_t tokens;
    std::int64_t most;  // rows
    std::int64_t k;
    std::int64_t columns;
    std::int64_t packs;  // of a row
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const auto [token, i] = place_of_pack(t.block() * kThreads + t.index(), p.packs);
    if (token >= p.tokens) return;
    const std::int32_t* of_token = p.row_of_pair + token * p.k;
    float sum[8] = {};
    std::int64_t last = -1;
    for (std::int64_t n = 0; n < p.k; ++n) {
      std::int64_t next = p.most;
      std::int64_t pair = 0;
      for (std::int64_t j = 0; j < p.k; ++j) {
        if (of_token[j] > last && of_token[j] < next) {
          next = of_token[j];
          pair = j;
        }
      }
      if (next == p.most) break;
      last = next;
      const float factor = p.probabilities == nullptr ? 1.0F : p.probabilities[token * p.k + pair];
      float values[8];
      load8(p.rows + next * p.rows_stride, i, p.columns, p.packed, values);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] = fma_of(factor, values[e], sum[e]);
    }
    store8(p.y + token * p.y_stride, i, p.columns, p.packed, sum);
  }
};

// dots[pair] = rows[row of the pair] . x[token]: a warp has a pair.
template <typename T>
struct PairDotsKernel {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kPairs = kThreads / 32;  // of a block
  struct Params {
    float* dots;
    const T* rows;
    const T* x;
    const std::int32_t* row_of_pair;
    std::int64_t rows_stride;
    std::int64_t x_stride;
    std::int64_t pairs;
    std::int64_t most;  // rows
    std::int64_t k;
    std::int64_t columns;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t pair = t.block() * kPairs + t.warp();
    if (pair >= p.pairs) return;
    const std::int64_t row = p.row_of_pair[pair];
    const bool has_row = row >= 0 && row < p.most;
    const float sum = has_row ? warp_dot(t, p.rows + row * p.rows_stride,
                                         p.x + pair / p.k * p.x_stride, p.columns, p.packed)
                              : 0.0F;
    if (t.lane() == 0) p.dots[pair] = sum;
  }
};

struct GatherElementsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* to;
    const float* from;
    const std::int32_t* index;
    std::int64_t n;
    std::int64_t m;  // elements of `from`
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i >= p.n) return;
    const std::int64_t at = p.index[i];
    p.to[i] = at >= 0 && at < p.m ? p.from[at] : 0.0F;
  }
};

}  // namespace phalanx::cuda
