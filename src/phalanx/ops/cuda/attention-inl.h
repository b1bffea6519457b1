#pragma once
// Attention, ops/attention.h, in tiles whose scores nobody stores. A block makes 64 columns of its
// results; where heads are wider, several blocks compute the same scores.

#include "phalanx/ops/cuda/attention_tile-inl.h"

namespace phalanx::cuda {

// A block has 64 queries of a head and 64 columns of the result: grid [tiles of queries, heads and
// chunks, samples].
template <typename T>
struct AttentionForwardKernel : AttentionTile {
  struct Params {
    AttentionOperands<T> in;
    AttentionResult<T, true> out;
    float* lse;  // [samples, heads, queries]
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
    float largest[4];
    float sums[4] = {};
    float out[4][4] = {};
#pragma unroll
    for (int a = 0; a < 4; ++a) largest[a] = -attention_infinity();
    const std::int64_t queries =
        in.queries - first_query < kSide ? in.queries - first_query : kSide;
    int turn = 0;
    const AttentionRange range = keys_in_sight(in, first_query, queries, kSide);
    for (std::int64_t j = range.begin; j < range.end; j += kSide, ++turn) {
      const AttentionPairs pairs(t, in, b, first_query, j);
      if (!pairs.any(t, flags, turn)) continue;
      float scores[4][4] = {};
      multiply_rows(t, query, in.query_heads.row, pairs.queries, key + j * in.key_heads.row,
                    in.key_heads.row, pairs.keys, in.width, in.packed, left, right, scores);
      pairs.scale(t, in, h, scores);
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
        const float base = most == -attention_infinity() ? 0.0F : most;
        const float shrink = attention_exp(largest[a] - base);
        largest[a] = most;
        sums[a] *= shrink;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          out[a][c] *= shrink;
          scores[a][c] = pairs.sees(a, c) ? attention_exp(scores[a][c] - base) : 0.0F;
          sums[a] += scores[a][c];
        }
      }
      pairs.drop(t, in, b, h, scores);
      keep_transposed(t, scores, weights);
      fetch<false>(t, value + j * in.value_heads.row, in.value_heads.row, pairs.keys, chunk,
                   in.width, in.packed, right);
      t.sync();
      if (row(t) < queries) multiply(t, weights, right, static_cast<int>(pairs.keys), out);
      // The barrier of any() comes before the next use of shared memory.
    }
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      for (int mask = 8; mask > 0; mask /= 2) sums[a] += t.shuffle_xor(sums[a], mask);
      const float factor = sums[a] == 0.0F ? 0.0F : 1.0F / sums[a];
#pragma unroll
      for (int c = 0; c < 4; ++c) out[a][c] *= factor;
      const std::int64_t i = row(t) + a;
      if (chunk == 0 && column(t) == 0 && i < queries) {
        p.lse[(b * in.heads + h) * in.queries + first_query + i] =
            sums[a] == 0.0F ? -attention_infinity()
                            : static_cast<float>(static_cast<double>(largest[a]) +
                                                 log_of(static_cast<double>(sums[a])));
      }
    }
    store_result(t, out, 1.0F, queries, chunk, in.width, p.out,
                 p.out.at(first_query, b, h, in.of_group));
  }
};

// delta[b][h][i] = the sum of out * dout: a warp has a row of a head.
template <typename T>
struct AttentionDeltaKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* delta;
    const T* out;
    const T* dout;
    AttentionHeads out_heads;
    AttentionHeads dout_heads;
    std::int64_t queries;
    std::int64_t batch;
    std::int64_t heads;
    std::int64_t width;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    // Heads of a row are neighbours in memory.
    const std::int64_t n = t.block() * (kThreads / 32) + t.warp();
    const std::int64_t h = n % p.heads;
    const std::int64_t b = n / p.heads % p.batch;
    const std::int64_t i = n / p.heads / p.batch;
    if (i >= p.queries) return;
    const T* out = p.out + i * p.out_heads.row + p.out_heads.at(b, h, 1);
    const T* dout = p.dout + i * p.dout_heads.row + p.dout_heads.at(b, h, 1);
    float sum = 0.0F;
    for (std::int64_t c = t.lane(); c < p.width; c += 32) {
      sum = fma_of(to_float(out[c]), to_float(dout[c]), sum);
    }
    sum = warp_sum(t, sum);
    if (t.lane() == 0) p.delta[(b * p.heads + h) * p.queries + i] = sum;
  }
};

}  // namespace phalanx::cuda
