#pragma once
// What kernels of attention share: operands, tiles of 64 queries and 64 keys, and which pairs of
// them are seen. All arithmetic is in fp32: 256 threads have 4 x 4 numbers of a tile each, from
// operands in shared memory.

#include "phalanx/ops/cuda/dropout-inl.h"

namespace phalanx::cuda {

// Heads of a batch, elements from one to the next. The heads of a group are `of_group`.
struct AttentionHeads {
  std::int64_t row;
  std::int64_t sample;
  std::int64_t group;
  std::int64_t head;

  PHALANX_DEVICE std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t of_group) const {
    return b * sample + h / of_group * group + h % of_group * head;
  }
};

// Coordinates of rows, elements from row to row and from sample to sample.
struct AttentionRows {
  const std::int64_t* samples;
  const std::int32_t* positions;
  const std::int32_t* documents;
  std::int64_t sample_strides[2];
  std::int64_t position_strides[2];
  std::int64_t document_strides[2];
  std::int64_t first;  // position of row 0 where rows are consecutive
  bool consecutive;
  bool one_document;

  PHALANX_DEVICE std::int64_t sample(std::int64_t i, std::int64_t b) const {
    return samples[i * sample_strides[0] + b * sample_strides[1]];
  }
  PHALANX_DEVICE std::int32_t position(std::int64_t i, std::int64_t b) const {
    if (consecutive) return static_cast<std::int32_t>(first + i);
    return positions[i * position_strides[0] + b * position_strides[1]];
  }
  PHALANX_DEVICE std::int32_t document(std::int64_t i, std::int64_t b) const {
    if (one_document) return 0;
    return documents[i * document_strides[0] + b * document_strides[1]];
  }
};

template <typename T>
struct AttentionOperands {
  const T* query;
  const T* key;
  const T* value;
  const float* bias;  // [heads, queries, keys], may be null
  AttentionHeads query_heads;
  AttentionHeads key_heads;  // of groups
  AttentionHeads value_heads;
  std::int64_t bias_head;  // elements between heads
  std::int64_t bias_row;
  AttentionRows query_rows;
  AttentionRows key_rows;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t of_group;
  std::int64_t width;
  std::int64_t chunks;  // of 64 columns
  std::int64_t window;  // 0: all
  bool causal;
  bool documents;
  bool packed;  // rows begin at multiples of 16 bytes
  float scale;
  DropoutPlan dropout;  // site of head 0
};

// Rows from `begin` to before `end`, which is at most their number.
struct AttentionRange {
  std::int64_t begin;
  std::int64_t end;

  PHALANX_DEVICE bool has(std::int64_t i) const { return i >= begin && i < end; }
  PHALANX_DEVICE bool empty() const { return begin >= end; }
};

PHALANX_DEVICE std::int64_t attention_clamp(std::int64_t i, std::int64_t most) {
  return i < 0 ? 0 : i > most ? most : i;
}

// The keys that `count` queries from `first` on may see by what is known of all positions. The
// range begins with a tile of `side` keys: who walks over tiles meets the same ones, but for some
// that nobody sees.
template <typename T>
PHALANX_DEVICE AttentionRange keys_in_sight(const AttentionOperands<T>& in, std::int64_t first,
                                            std::int64_t count, std::int64_t side) {
  if (!in.causal || !in.query_rows.consecutive || !in.key_rows.consecutive) return {0, in.keys};
  const std::int64_t ahead = in.query_rows.first - in.key_rows.first;
  const std::int64_t begin =
      in.window == 0 ? 0 : attention_clamp(first + ahead - in.window + 1, in.keys);
  return {begin / side * side, attention_clamp(first + count + ahead, in.keys)};
}

// The queries that may see `count` keys from `first` on, likewise.
template <typename T>
PHALANX_DEVICE AttentionRange queries_in_sight(const AttentionOperands<T>& in, std::int64_t first,
                                               std::int64_t count, std::int64_t side) {
  if (!in.causal || !in.query_rows.consecutive || !in.key_rows.consecutive) return {0, in.queries};
  const std::int64_t ahead = in.query_rows.first - in.key_rows.first;
  const std::int64_t begin = attention_clamp(first - ahead, in.queries);
  return {begin / side * side,
          in.window == 0 ? in.queries
                         : attention_clamp(first + count - 1 + in.window - ahead, in.queries)};
}

// Probabilities that unfused attention keeps, [samples, heads, queries, keys]: elements from one to
// the next; keys are neighbours.
template <typename T>
struct AttentionProbabilities {
  T* data;
  std::int64_t sample;
  std::int64_t head;
  std::int64_t row;
  bool even;  // pairs of keys 2 n and 2 n + 1 are at multiples of their size

  PHALANX_DEVICE T* at(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return data + b * sample + h * head + i * row;
  }
};

// Where heads of results lie. Those of fused attention may be floats beside storage of 16 bits.
template <typename T, bool kFused>
struct AttentionResult {
  std::byte* data;
  AttentionHeads heads;
  bool full;  // of fused attention: `data` has floats

  // The first row of a head.
  PHALANX_DEVICE std::int64_t at(std::int64_t first, std::int64_t b, std::int64_t h,
                                 std::int64_t of_group) const {
    return first * heads.row + heads.at(b, h, of_group);
  }
  PHALANX_DEVICE void put(std::int64_t place, float value) const {
    if (kFused && !std::is_same_v<T, float> && full) {
      reinterpret_cast<float*>(data)[place] = value;
    } else {
      reinterpret_cast<T*>(data)[place] = round_to<T>(value);
    }
  }
};

// Floats may be added to what is there.
template <typename T, bool kFused>
struct AttentionSum : AttentionResult<T, kFused> {
  bool adds;

  PHALANX_DEVICE void put(std::int64_t place, float value) const {
    if (kFused && adds) value = reinterpret_cast<float*>(this->data)[place] + value;
    AttentionResult<T, kFused>::put(place, value);
  }
};

// 64 x 64 numbers of a block.
struct AttentionTile {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kSide = 64;
  static constexpr std::int64_t kNumbers = kSide * kSide;

  // This thread's first row and column.
  PHALANX_DEVICE static std::int64_t row(const Thread& t) { return t.index() / 16 * 4; }
  PHALANX_DEVICE static std::int64_t column(const Thread& t) { return t.index() % 16 * 4; }

  // sum[a][c] += x[k][row + a] y[k][column + c] over k.
  PHALANX_DEVICE static void multiply(const Thread& t, const float* x, const float* y, int count,
                                      float (&sum)[4][4]) {
    x += row(t);
    y += column(t);
#pragma unroll 4
    for (int k = 0; k < count; ++k) {
      const auto left = load_pack<4>(x + k * kSide);
      const auto right = load_pack<4>(y + k * kSide);
#pragma unroll
      for (int a = 0; a < 4; ++a) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[a][c] = fma_of(left.at[a], right.at[c], sum[a][c]);
      }
    }
  }

  // 64 rows of 64 columns from column `begin` on, as to[row][column] or to[column][row]; zeros
  // behind the ends.
  template <bool kTransposed, typename T>
  PHALANX_DEVICE static void fetch(const Thread& t, const T* from, std::int64_t stride,
                                   std::int64_t rows, std::int64_t begin, std::int64_t width,
                                   bool packed, float* to) {
    const std::int64_t r = t.index() % kSide;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::int64_t c = (t.index() / kSide + 4 * part) * 8;
      float values[8] = {};
      if (r < rows) load8(from + r * stride, begin + c, width, packed, values);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        to[kTransposed ? (c + e) * kSide + r : r * kSide + c + e] = values[e];
      }
    }
  }

  // sum[a][c] += the products of rows of x and rows of y, over all columns.
  template <typename T>
  PHALANX_DEVICE static void multiply_rows(Thread& t, const T* x, std::int64_t x_stride,
                                           std::int64_t x_rows, const T* y, std::int64_t y_stride,
                                           std::int64_t y_rows, std::int64_t width, bool packed,
                                           float* left, float* right, float (&sum)[4][4]) {
    for (std::int64_t begin = 0; begin < width; begin += kSide) {
      fetch<true>(t, x, x_stride, x_rows, begin, width, packed, left);
      fetch<true>(t, y, y_stride, y_rows, begin, width, packed, right);
      t.sync();
      const std::int64_t count = width - begin < kSide ? width - begin : kSide;
      if (row(t) < x_rows) multiply(t, left, right, static_cast<int>(count), sum);
      t.sync();
    }
  }

  // Stores this thread's numbers of a result's columns.
  template <typename T>
  PHALANX_DEVICE static void store(const Thread& t, const float (&sum)[4][4], float factor,
                                   std::int64_t rows, std::int64_t begin, std::int64_t width, T* to,
                                   std::int64_t stride) {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t i = begin + column(t) + c;
        if (row(t) + a < rows && i < width) {
          to[(row(t) + a) * stride + i] = round_to<T>(sum[a][c] * factor);
        }
      }
    }
  }
  // The same, to rows from `place` on.
  template <typename Result>
  PHALANX_DEVICE static void store_result(const Thread& t, const float (&sum)[4][4], float factor,
                                          std::int64_t rows, std::int64_t begin, std::int64_t width,
                                          const Result& to, std::int64_t place) {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t i = begin + column(t) + c;
        if (row(t) + a < rows && i < width) {
          to.put(place + (row(t) + a) * to.heads.row + i, sum[a][c] * factor);
        }
      }
    }
  }
  // This thread's numbers of a tile into shared memory, for products with it: as rows, or as
  // columns.
  PHALANX_DEVICE static void keep(const Thread& t, const float (&values)[4][4], float* to) {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      Pack<float, 4> pack;
#pragma unroll
      for (int c = 0; c < 4; ++c) pack.at[c] = values[a][c];
      store_pack<4>(to + (row(t) + a) * kSide + column(t), pack);
    }
  }
  PHALANX_DEVICE static void keep_transposed(const Thread& t, const float (&values)[4][4],
                                             float* to) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      Pack<float, 4> pack;
#pragma unroll
      for (int a = 0; a < 4; ++a) pack.at[a] = values[a][c];
      store_pack<4>(to + (column(t) + c) * kSide + row(t), pack);
    }
  }
};

// The pairs of queries and keys that a thread has in a tile: which are seen, and what dropout makes
// of them.
struct AttentionPairs {
  std::int64_t query_begin;
  std::int64_t key_begin;
  std::int64_t queries;  // of the tile
  std::int64_t keys;
  std::uint32_t seen;  // bit 4 a + c

  template <typename T>
  PHALANX_DEVICE AttentionPairs(const Thread& t, const AttentionOperands<T>& in, std::int64_t b,
                                std::int64_t first_query, std::int64_t first_key)
      : query_begin(first_query), key_begin(first_key), seen(0) {
    queries = in.queries - query_begin < AttentionTile::kSide ? in.queries - query_begin
                                                              : AttentionTile::kSide;
    keys = in.keys - key_begin < AttentionTile::kSide ? in.keys - key_begin : AttentionTile::kSide;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const std::int64_t j = AttentionTile::column(t) + c;
      if (j >= keys) continue;
      const std::int32_t document = in.key_rows.document(key_begin + j, b);
      if (document < 0) continue;
      const std::int64_t position = in.key_rows.position(key_begin + j, b);
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        const std::int64_t i = AttentionTile::row(t) + a;
        if (i >= queries) continue;
        if (in.documents && in.query_rows.document(query_begin + i, b) != document) continue;
        if (in.causal) {
          const std::int64_t distance = in.query_rows.position(query_begin + i, b) - position;
          if (distance < 0 || (in.window != 0 && distance >= in.window)) continue;
        }
        seen |= 1U << (4 * a + c);
      }
    }
  }

  PHALANX_DEVICE bool sees(int a, int c) const { return ((seen >> (4 * a + c)) & 1U) != 0; }

  // Whether any thread of the block sees a pair. `flags` has 2 x 8 numbers, of which calls use
  // halves in turn, so that one barrier is enough.
  PHALANX_DEVICE bool any(Thread& t, std::uint32_t* flags, int turn) const {
    std::uint32_t* const of_warps = flags + turn % 2 * 8;
    const std::uint32_t lanes = t.ballot(seen != 0);
    if (t.lane() == 0) of_warps[t.warp()] = lanes;
    t.sync();
    std::uint32_t all = 0;
    for (int w = 0; w < 8; ++w) all |= of_warps[w];
    return all != 0;
  }

  // Products become scores.
  template <typename T>
  PHALANX_DEVICE void scale(const Thread& t, const AttentionOperands<T>& in, std::int64_t h,
                            float (&scores)[4][4]) const {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        scores[a][c] *= in.scale;
        if (in.bias != nullptr && sees(a, c)) {
          scores[a][c] +=
              in.bias[h * in.bias_head + (query_begin + AttentionTile::row(t) + a) * in.bias_row +
                      key_begin + AttentionTile::column(t) + c];
        }
      }
    }
  }

  // Multiplies the pairs that are seen with 0 or 1 / (1 - p).
  template <typename T>
  PHALANX_DEVICE void drop(const Thread& t, const AttentionOperands<T>& in, std::int64_t b,
                           std::int64_t h, float (&values)[4][4]) const {
    if (!in.dropout.draws) return;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      if (((seen >> (4 * a)) & 15U) == 0) continue;
      const std::int64_t i = query_begin + AttentionTile::row(t) + a;
      const auto sample = static_cast<std::uint64_t>(in.query_rows.sample(i, b));
      const auto outer = static_cast<std::uint32_t>(in.query_rows.position(i, b));
      const std::uint32_t high =
          in.dropout.key_high ^ (static_cast<std::uint32_t>(sample >> 32) * 0x85EBCA6BU);
      // Neighbours have words of one call.
      Words4 words{};
      std::uint32_t quarter = 0;
      bool has_words = false;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (!sees(a, c)) continue;
        const auto inner = static_cast<std::uint32_t>(
            in.key_rows.position(key_begin + AttentionTile::column(t) + c, b));
        if (!has_words || inner / 4 != quarter) {
          quarter = inner / 4;
          has_words = true;
          words = philox(in.dropout.key_low, high,
                         {{quarter, outer, in.dropout.site + static_cast<std::uint32_t>(h),
                           static_cast<std::uint32_t>(sample)}});
        }
        const std::uint32_t low = inner % 2 == 0 ? words.at[0] : words.at[1];
        const std::uint32_t top = inner % 2 == 0 ? words.at[2] : words.at[3];
        const std::uint32_t word = inner % 4 < 2 ? low : top;
        values[a][c] *= word < in.dropout.threshold ? 0.0F : in.dropout.multiplier;
      }
    }
  }
};

PHALANX_DEVICE float attention_infinity() { return float_of_bits(0x7f800000U); }
PHALANX_DEVICE float attention_exp(float x) { return exp2_of(x * 1.44269504088896341F); }

}  // namespace phalanx::cuda
