#pragma once
// Attention backward in the tiles of forward. Probabilities come from scores, which are computed
// again, and the log-sum-exp; in unfused attention they are read.

#include "phalanx/ops/cuda/attention_tile-inl.h"

namespace phalanx::cuda {

// What backward has beside the operands of forward.
template <typename T>
struct AttentionGradients {
  const T* dout;
  AttentionHeads dout_heads;
  const float* lse;    // [samples, heads, queries]; null in unfused attention
  const float* delta;  // the same shape
  AttentionProbabilities<const T> probabilities;  // of unfused attention
};

// Probabilities of a tile, before dropout; 0 where a query does not see a key.
template <bool kUnfused, typename T>
PHALANX_DEVICE void attention_probabilities(Thread& t, const AttentionOperands<T>& in,
                                            const AttentionGradients<T>& of,
                                            const AttentionPairs& pairs, std::int64_t b,
                                            std::int64_t h, float* left, float* right,
                                            float (&probabilities)[4][4]) {
  using Tile = AttentionTile;
  const std::int64_t i = pairs.query_begin;
  const std::int64_t j = pairs.key_begin;
  if constexpr (kUnfused) {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      const T* row = of.probabilities.at(b, h, i + Tile::row(t) + a) + j + Tile::column(t);
#pragma unroll
      for (int c = 0; c < 4; ++c) probabilities[a][c] = pairs.sees(a, c) ? to_float(row[c]) : 0.0F;
    }
  } else {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int c = 0; c < 4; ++c) probabilities[a][c] = 0.0F;
    }
    Tile::multiply_rows(t, in.query + i * in.query_heads.row + in.query_heads.at(b, h, in.of_group),
                        in.query_heads.row, pairs.queries,
                        in.key + j * in.key_heads.row + in.key_heads.at(b, h / in.of_group, 1),
                        in.key_heads.row, pairs.keys, in.width, in.packed, left, right,
                        probabilities);
    pairs.scale(t, in, h, probabilities);
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      const std::int64_t r = Tile::row(t) + a;
      const float lse = of.lse[(b * in.heads + h) * in.queries + i + (r < pairs.queries ? r : 0)];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        probabilities[a][c] = pairs.sees(a, c) ? attention_exp(probabilities[a][c] - lse) : 0.0F;
      }
    }
  }
}

// dout times the values, after dropout.
template <typename T>
PHALANX_DEVICE void attention_dprobabilities(Thread& t, const AttentionOperands<T>& in,
                                             const AttentionGradients<T>& of,
                                             const AttentionPairs& pairs, std::int64_t b,
                                             std::int64_t h, float* left, float* right,
                                             float (&dprobabilities)[4][4]) {
  const std::int64_t i = pairs.query_begin;
  const std::int64_t j = pairs.key_begin;
#pragma unroll
  for (int a = 0; a < 4; ++a) {
#pragma unroll
    for (int c = 0; c < 4; ++c) dprobabilities[a][c] = 0.0F;
  }
  AttentionTile::multiply_rows(
      t, of.dout + i * of.dout_heads.row + of.dout_heads.at(b, h, in.of_group), of.dout_heads.row,
      pairs.queries, in.value + j * in.value_heads.row + in.value_heads.at(b, h / in.of_group, 1),
      in.value_heads.row, pairs.keys, in.width, in.packed, left, right, dprobabilities);
  pairs.drop(t, in, b, h, dprobabilities);
}

// probabilities (after dropout) and dscores of a tile.
template <bool kUnfused, typename T>
PHALANX_DEVICE void attention_gradients(Thread& t, const AttentionOperands<T>& in,
                                        const AttentionGradients<T>& of,
                                        const AttentionPairs& pairs, std::int64_t b, std::int64_t h,
                                        float* left, float* right, float (&probabilities)[4][4],
                                        float (&dscores)[4][4]) {
  using Tile = AttentionTile;
  attention_probabilities<kUnfused>(t, in, of, pairs, b, h, left, right, probabilities);
  attention_dprobabilities(t, in, of, pairs, b, h, left, right, dscores);
#pragma unroll
  for (int a = 0; a < 4; ++a) {
    const std::int64_t r = Tile::row(t) + a;
    const float delta =
        of.delta[(b * in.heads + h) * in.queries + pairs.query_begin + (r < pairs.queries ? r : 0)];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      dscores[a][c] = pairs.sees(a, c) ? probabilities[a][c] * (dscores[a][c] - delta) : 0.0F;
    }
  }
  pairs.drop(t, in, b, h, probabilities);
}

// dquery: a block as of forward.
template <typename T, bool kUnfused>
struct AttentionQueryGradientKernel : AttentionTile {
  struct Params {
    AttentionOperands<T> in;
    AttentionGradients<T> of;
    AttentionSum<T, !kUnfused> dquery;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 3 * kNumbers * static_cast<std::int64_t>(sizeof(float)) + 128;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    float* left = t.template shared<float>(kNumbers);
    float* right = t.template shared<float>(kNumbers);
    float* weights = t.template shared<float>(kNumbers);  // [key][query]
    auto* flags = t.template shared<std::uint32_t>(16);
    const std::int64_t first_query = t.block(0) * kSide;
    const std::int64_t h = t.block(1) / in.chunks;
    const std::int64_t chunk = t.block(1) % in.chunks * kSide;
    const std::int64_t b = t.block(2);
    const T* key = in.key + in.key_heads.at(b, h / in.of_group, 1);
    const std::int64_t queries =
        in.queries - first_query < kSide ? in.queries - first_query : kSide;
    float sum[4][4] = {};
    int turn = 0;
    const AttentionRange range = keys_in_sight(in, first_query, queries, kSide);
    for (std::int64_t j = range.begin; j < range.end; j += kSide, ++turn) {
      const AttentionPairs pairs(t, in, b, first_query, j);
      if (!pairs.any(t, flags, turn)) continue;
      float probabilities[4][4];
      float dscores[4][4];
      attention_gradients<kUnfused>(t, in, p.of, pairs, b, h, left, right, probabilities, dscores);
      keep_transposed(t, dscores, weights);
      fetch<false>(t, key + j * in.key_heads.row, in.key_heads.row, pairs.keys, chunk, in.width,
                   in.packed, right);
      t.sync();
      if (row(t) < queries) multiply(t, weights, right, static_cast<int>(pairs.keys), sum);
    }
    store_result(t, sum, in.scale, queries, chunk, in.width, p.dquery,
                 p.dquery.at(first_query, b, h, in.of_group));
  }
};

// dkey and dvalue: a block has 64 keys of a group and 64 columns, and meets all queries of all
// heads of the group: grid [tiles of keys, groups and chunks, samples].
template <typename T, bool kUnfused>
struct AttentionKeyGradientKernel : AttentionTile {
  struct Params {
    AttentionOperands<T> in;
    AttentionGradients<T> of;
    AttentionResult<T, !kUnfused> dkey;
    AttentionResult<T, !kUnfused> dvalue;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 4 * kNumbers * static_cast<std::int64_t>(sizeof(float)) + 128;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    float* left = t.template shared<float>(kNumbers);
    float* right = t.template shared<float>(kNumbers);
    float* weights = t.template shared<float>(kNumbers);   // [query][key]: probabilities
    float* dweights = t.template shared<float>(kNumbers);  // [query][key]: dscores
    auto* flags = t.template shared<std::uint32_t>(16);
    const std::int64_t first_key = t.block(0) * kSide;
    const std::int64_t g = t.block(1) / in.chunks;
    const std::int64_t chunk = t.block(1) % in.chunks * kSide;
    const std::int64_t b = t.block(2);
    const std::int64_t keys = in.keys - first_key < kSide ? in.keys - first_key : kSide;
    const AttentionRange range = queries_in_sight(in, first_key, keys, kSide);
    float dkey[4][4] = {};
    float dvalue[4][4] = {};
    int turn = 0;
    for (std::int64_t h = g * in.of_group; h < (g + 1) * in.of_group; ++h) {
      const T* query = in.query + in.query_heads.at(b, h, in.of_group);
      const T* dout = p.of.dout + p.of.dout_heads.at(b, h, in.of_group);
      for (std::int64_t i = range.begin; i < range.end; i += kSide, ++turn) {
        const AttentionPairs pairs(t, in, b, i, first_key);
        if (!pairs.any(t, flags, turn)) continue;
        float probabilities[4][4];
        float dscores[4][4];
        attention_gradients<kUnfused>(t, in, p.of, pairs, b, h, left, right, probabilities,
                                      dscores);
        keep(t, probabilities, weights);
        keep(t, dscores, dweights);
        fetch<false>(t, dout + i * p.of.dout_heads.row, p.of.dout_heads.row, pairs.queries, chunk,
                     in.width, in.packed, left);
        fetch<false>(t, query + i * in.query_heads.row, in.query_heads.row, pairs.queries, chunk,
                     in.width, in.packed, right);
        t.sync();
        if (row(t) < keys) {
          multiply(t, weights, left, static_cast<int>(pairs.queries), dvalue);
          multiply(t, dweights, right, static_cast<int>(pairs.queries), dkey);
        }
      }
    }
    store_result(t, dkey, in.scale, keys, chunk, in.width, p.dkey, p.dkey.at(first_key, b, g, 1));
    store_result(t, dvalue, 1.0F, keys, chunk, in.width, p.dvalue, p.dvalue.at(first_key, b, g, 1));
  }
};

// dbias += dscores of all samples, in order: a block has a tile of a head: grid [tiles of keys,
// tiles of queries, heads].
template <typename T, bool kUnfused>
struct AttentionBiasGradientKernel : AttentionTile {
  struct Params {
    AttentionOperands<T> in;
    AttentionGradients<T> of;
    float* dbias;
    std::int64_t head;  // elements between heads
    std::int64_t row;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 2 * kNumbers * static_cast<std::int64_t>(sizeof(float)) + 128;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    float* left = t.template shared<float>(kNumbers);
    float* right = t.template shared<float>(kNumbers);
    auto* flags = t.template shared<std::uint32_t>(16);
    const std::int64_t first_key = t.block(0) * kSide;
    const std::int64_t first_query = t.block(1) * kSide;
    const std::int64_t h = t.block(2);
    float sum[4][4] = {};
    for (std::int64_t b = 0; b < in.batch; ++b) {
      const AttentionPairs pairs(t, in, b, first_query, first_key);
      if (!pairs.any(t, flags, static_cast<int>(b))) continue;
      float probabilities[4][4];
      float dscores[4][4];
      attention_gradients<kUnfused>(t, in, p.of, pairs, b, h, left, right, probabilities, dscores);
#pragma unroll
      for (int a = 0; a < 4; ++a) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[a][c] += dscores[a][c];
      }
    }
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t i = first_query + row(t) + a;
        const std::int64_t j = first_key + column(t) + c;
        if (i < in.queries && j < in.keys) p.dbias[h * p.head + i * p.row + j] += sum[a][c];
      }
    }
  }
};

}  // namespace phalanx::cuda
