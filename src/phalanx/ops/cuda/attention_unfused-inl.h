#pragma once
// Unfused attention: probabilities are kept, rounded to the storage type, and the output comes from
// those. Forward walks over the keys twice, first for the sums of the rows, and computes scores in
// both walks, so that nobody stores them. Backward reads the probabilities
// (attention_backward-inl.h).

#include "phalanx/ops/cuda/attention_backward-inl.h"

namespace phalanx::cuda {

// A block as of AttentionForwardKernel. Where heads are wider than 64, the one that has the first
// columns stores the probabilities.
template <typename T>
struct UnfusedAttentionForwardKernel : AttentionTile {
  struct Params {
    AttentionOperands<T> in;
    T* out;
    AttentionHeads out_heads;
    AttentionProbabilities<T> probabilities;
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
    const std::int64_t g = h / in.of_group;
    const T* query =
        in.query + first_query * in.query_heads.row + in.query_heads.at(b, h, in.of_group);
    const T* key = in.key + in.key_heads.at(b, g, 1);
    const T* value = in.value + in.value_heads.at(b, g, 1);
    const std::int64_t queries =
        in.queries - first_query < kSide ? in.queries - first_query : kSide;
    const auto make_scores = [&](const AttentionPairs& pairs, float(&scores)[4][4]) {
#pragma unroll
      for (int a = 0; a < 4; ++a) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[a][c] = 0.0F;
      }
      multiply_rows(t, query, in.query_heads.row, pairs.queries,
                    key + pairs.key_begin * in.key_heads.row, in.key_heads.row, pairs.keys,
                    in.width, in.packed, left, right, scores);
      pairs.scale(t, in, h, scores);
    };

    float largest[4];
    float sums[4] = {};
#pragma unroll
    for (int a = 0; a < 4; ++a) largest[a] = -attention_infinity();
    int turn = 0;
    for (std::int64_t j = 0; j < in.keys; j += kSide, ++turn) {
      const AttentionPairs pairs(t, in, b, first_query, j);
      if (!pairs.any(t, flags, turn)) continue;
      float scores[4][4];
      make_scores(pairs, scores);
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        float most = largest[a];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (pairs.sees(a, c) && scores[a][c] > most) most = scores[a][c];
        }
        // The 16 threads of a row are neighbours in a warp.
        for (int mask = 8; mask > 0; mask /= 2) {
          const float other = t.shuffle_xor(most, mask);
          most = other > most ? other : most;
        }
        if (most == -attention_infinity()) continue;
        sums[a] *= attention_exp(largest[a] - most);
        largest[a] = most;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (pairs.sees(a, c)) sums[a] += attention_exp(scores[a][c] - most);
        }
      }
    }
    float factors[4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      for (int mask = 8; mask > 0; mask /= 2) sums[a] += t.shuffle_xor(sums[a], mask);
      factors[a] = sums[a] == 0.0F ? 0.0F : 1.0F / sums[a];
    }

    float out[4][4] = {};
    for (std::int64_t j = 0; j < in.keys; j += kSide, ++turn) {
      const AttentionPairs pairs(t, in, b, first_query, j);
      const bool any = pairs.any(t, flags, turn);
      float scores[4][4] = {};
      if (any) {
        make_scores(pairs, scores);
#pragma unroll
        for (int a = 0; a < 4; ++a) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            scores[a][c] = pairs.sees(a, c)
                               ? rounded<T>(attention_exp(scores[a][c] - largest[a]) * factors[a])
                               : 0.0F;
          }
        }
      }
      // Where nobody sees anything are zeros.
      if (chunk == 0) {
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          if (row(t) + a >= queries) continue;
          T* to = p.probabilities.at(b, h, first_query + row(t) + a) + j + column(t);
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            if (column(t) + c < pairs.keys) to[c] = round_to<T>(scores[a][c]);
          }
        }
      }
      if (!any) continue;
      pairs.drop(t, in, b, h, scores);
      keep_transposed(t, scores, weights);
      fetch<false>(t, value + j * in.value_heads.row, in.value_heads.row, pairs.keys, chunk,
                   in.width, in.packed, right);
      t.sync();
      if (row(t) < queries) multiply(t, weights, right, static_cast<int>(pairs.keys), out);
      // The barrier of any() comes before the next use of shared memory.
    }
    store(t, out, 1.0F, queries, chunk, in.width,
          p.out + first_query * p.out_heads.row + p.out_heads.at(b, h, in.of_group),
          p.out_heads.row);
  }
};

// delta[b][h][i] = the sum of probabilities and their gradients, which is that of out * dout: grid
// [tiles of queries, heads, samples].
template <typename T>
struct UnfusedAttentionDeltaKernel : AttentionTile {
  struct Params {
    AttentionOperands<T> in;
    AttentionGradients<T> of;
    float* delta;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 2 * kNumbers * static_cast<std::int64_t>(sizeof(float)) + 128;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    float* left = t.template shared<float>(kNumbers);
    float* right = t.template shared<float>(kNumbers);
    auto* flags = t.template shared<std::uint32_t>(16);
    const std::int64_t first_query = t.block(0) * kSide;
    const std::int64_t h = t.block(1);
    const std::int64_t b = t.block(2);
    const std::int64_t queries =
        in.queries - first_query < kSide ? in.queries - first_query : kSide;
    float sums[4] = {};
    int turn = 0;
    for (std::int64_t j = 0; j < in.keys; j += kSide, ++turn) {
      const AttentionPairs pairs(t, in, b, first_query, j);
      if (!pairs.any(t, flags, turn)) continue;
      float probabilities[4][4];
      float dprobabilities[4][4];
      attention_probabilities<true>(t, in, p.of, pairs, b, h, left, right, probabilities);
      attention_dprobabilities(t, in, p.of, pairs, b, h, left, right, dprobabilities);
#pragma unroll
      for (int a = 0; a < 4; ++a) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sums[a] = fma_of(probabilities[a][c], dprobabilities[a][c], sums[a]);
        }
      }
    }
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      for (int mask = 8; mask > 0; mask /= 2) sums[a] += t.shuffle_xor(sums[a], mask);
      const std::int64_t i = row(t) + a;
      if (column(t) == 0 && i < queries) {
        p.delta[(b * in.heads + h) * in.queries + first_query + i] = sums[a];
      }
    }
  }
};

}  // namespace phalanx::cuda
