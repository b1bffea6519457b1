#pragma once
// attention_unfused-inl.h of 16-bit types on tensor cores: a warp has 16 queries, whose scores and
// probabilities stay in registers.

#include "phalanx/ops/cuda/attention_mma_backward-inl.h"
#include "phalanx/ops/cuda/attention_unfused-inl.h"

namespace phalanx::cuda {

// A thread's two queries of a block of 64, and the keys of a tile that they meet.
template <typename T>
struct UnfusedMmaRows {
  int row[2];
  std::int32_t position[2];
  std::int32_t document[2];
  std::int64_t sample[2];

  PHALANX_DEVICE UnfusedMmaRows(const Thread& t, const AttentionOperands<T>& in,
                                std::int64_t first_query, int query_count, std::int64_t b) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      row[r] = 16 * t.warp() + t.lane() / 4 + 8 * r;
      // A row behind the last one is a copy of it.
      const std::int64_t i = first_query + (row[r] < query_count ? row[r] : query_count - 1);
      position[r] = in.query_rows.position(i, b);
      document[r] = in.query_rows.document(i, b);
      sample[r] = in.dropout.draws ? in.query_rows.sample(i, b) : 0;
    }
  }

  // Coordinates of 64 keys from j on; documents behind the last key are negative.
  PHALANX_DEVICE static void fetch_keys(const Thread& t, const AttentionOperands<T>& in,
                                        std::int64_t j, std::int64_t key_count, std::int64_t b,
                                        std::int32_t* positions, std::int32_t* documents) {
    if (t.index() >= 64) return;
    const bool valid = t.index() < key_count;
    positions[t.index()] = valid ? in.key_rows.position(j + t.index(), b) : 0;
    documents[t.index()] = valid ? in.key_rows.document(j + t.index(), b) : -1;
  }
};

template <typename T, int kWidth>
struct UnfusedAttentionMmaForwardKernel {
  static constexpr int kThreads = 128;
  static constexpr int kSide = 64;
  using Tile = AttentionMmaForwardKernel<T, kWidth>;
  using Params = typename UnfusedAttentionForwardKernel<T>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 3 * kSide * kWidth * static_cast<std::int64_t>(sizeof(T)) + 2 * 256;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    T* queries = t.template shared<T>(kSide * kWidth);
    T* keys = t.template shared<T>(kSide * kWidth);
    T* values = t.template shared<T>(kSide * kWidth);
    auto* key_positions = t.template shared<std::int32_t>(kSide);
    auto* key_documents = t.template shared<std::int32_t>(kSide);
    const std::int64_t first_query = t.block(0) * kSide;
    const std::int64_t h = t.block(1);
    const std::int64_t b = t.block(2);
    const std::int64_t g = h / in.of_group;
    const int query_count =
        in.queries - first_query < kSide ? static_cast<int>(in.queries - first_query) : kSide;
    const T* key = in.key + in.key_heads.at(b, g, 1);
    const T* value = in.value + in.value_heads.at(b, g, 1);
    const AttentionRange range = keys_in_sight(in, first_query, query_count, kSide);
    if (!range.empty()) {
      Tile::fetch(
          t, in.query + first_query * in.query_heads.row + in.query_heads.at(b, h, in.of_group),
          in.query_heads.row, query_count, in.width, queries);
    }
    const int pair = 2 * (t.lane() % 4);
    const float log2e = 1.44269504088896341F;
    const float scale = in.scale * log2e;
    const UnfusedMmaRows<T> rows(t, in, first_query, query_count, b);

    // In units of log 2; -infinity where a query does not see a key.
    const auto make_scores = [&](std::int64_t j, const MmaPairs& pairs, float(&scores)[8][4]) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[n][e] = 0.0F;
      }
      mma_rows<T, kWidth, 8>(t, queries, 16 * t.warp(), keys, scores);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2;
          float score = scores[n][e] * scale;
          if (in.bias != nullptr && pairs.sees(n, e) && rows.row[r] < query_count) {
            score += log2e * in.bias[h * in.bias_head + (first_query + rows.row[r]) * in.bias_row +
                                     j + 8 * n + pair + e % 2];
          }
          scores[n][e] = pairs.sees(n, e) ? score : -attention_infinity();
        }
      }
    };

    float largest[2] = {-attention_infinity(), -attention_infinity()};
    float sums[2] = {};
    for (std::int64_t j = range.begin; j < range.end; j += kSide) {
      const std::int64_t key_count = in.keys - j < kSide ? in.keys - j : kSide;
      // Everybody is done with the tile before.
      t.sync();
      Tile::fetch(t, key + j * in.key_heads.row, in.key_heads.row, key_count, in.width, keys);
      rows.fetch_keys(t, in, j, key_count, b, key_positions, key_documents);
      t.template cp_wait<0>();
      t.sync();
      const MmaPairs pairs(in, rows.position, rows.document, key_positions, key_documents, pair);
      if (t.ballot(pairs.seen != 0) == 0) continue;
      float scores[8][4];
      make_scores(j, pairs, scores);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = largest[r];
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (scores[n][2 * r + e] > most) most = scores[n][2 * r + e];
          }
        }
        // Four lanes have a row.
        for (int mask = 2; mask > 0; mask /= 2) {
          const float other = t.shuffle_xor(most, mask);
          most = other > most ? other : most;
        }
        if (most == -attention_infinity()) continue;
        sums[r] *= exp2_of(largest[r] - most);
        largest[r] = most;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) sums[r] += exp2_of(scores[n][2 * r + e] - most);
        }
      }
    }
    float factors[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      for (int mask = 2; mask > 0; mask /= 2) sums[r] += t.shuffle_xor(sums[r], mask);
      factors[r] = sums[r] == 0.0F ? 0.0F : 1.0F / sums[r];
    }

    float out[kWidth / 8][4] = {};
    for (std::int64_t j = 0; j < in.keys; j += kSide) {
      const std::int64_t key_count = in.keys - j < kSide ? in.keys - j : kSide;
      const bool in_sight = range.has(j);
      if (in_sight) {
        // Everybody is done with the tile before.
        t.sync();
        Tile::fetch(t, key + j * in.key_heads.row, in.key_heads.row, key_count, in.width, keys);
        Tile::fetch(t, value + j * in.value_heads.row, in.value_heads.row, key_count, in.width,
                    values);
        rows.fetch_keys(t, in, j, key_count, b, key_positions, key_documents);
        t.template cp_wait<0>();
        t.sync();
      }
      const MmaPairs pairs(in, rows.position, rows.document, key_positions, key_documents, pair);
      const bool any = t.ballot(in_sight && pairs.seen != 0) != 0;
      const bool regular = t.ballot(pairs.regular) == 0xffffffffU;
      float weights[8][4] = {};
      if (any) {
        make_scores(j, pairs, weights);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            weights[n][e] =
                pairs.sees(n, e)
                    ? rounded<T>(exp2_of(weights[n][e] - largest[e / 2]) * factors[e / 2])
                    : 0.0F;
          }
        }
      }
      // Where nobody sees anything are zeros.
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (rows.row[r] >= query_count) continue;
        T* to = p.probabilities.at(b, h, first_query + rows.row[r]) + j + pair;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          const Pack<T, 2> two{
              {round_to<T>(weights[n][2 * r]), round_to<T>(weights[n][2 * r + 1])}};
          const std::int64_t column = 8 * n + pair;
          if (p.probabilities.even && column + 1 < key_count) {
            store_pack<2>(to + 8 * n, two);
          } else {
            if (column < key_count) to[8 * n] = two.at[0];
            if (column + 1 < key_count) to[8 * n + 1] = two.at[1];
          }
        }
      }
      if (!any) continue;
      if (in.dropout.draws) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          Tile::drop(t, in, h, rows.sample, rows.position, key_positions + 8 * n, pair, regular,
                     1.0F, weights[n]);
        }
      }
      mma_weighted<T, kWidth, 8>(t, weights, values, out);
    }
    // Kept probabilities are multiplied here, behind their one rounding, as on the processor.
    store_mma<T, kWidth>(
        t, out, in.dropout.draws ? in.dropout.multiplier : 1.0F, query_count, in.width,
        p.out + first_query * p.out_heads.row + p.out_heads.at(b, h, in.of_group), p.out_heads.row);
  }
};

template <typename T, int kWidth>
struct UnfusedAttentionMmaDeltaKernel {
  static constexpr int kThreads = 128;
  static constexpr int kSide = 64;
  using Tile = AttentionMmaForwardKernel<T, kWidth>;
  using Params = typename UnfusedAttentionDeltaKernel<T>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 2 * kSide * kWidth * static_cast<std::int64_t>(sizeof(T)) + 2 * 256;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    T* douts = t.template shared<T>(kSide * kWidth);
    T* values = t.template shared<T>(kSide * kWidth);
    auto* key_positions = t.template shared<std::int32_t>(kSide);
    auto* key_documents = t.template shared<std::int32_t>(kSide);
    const std::int64_t first_query = t.block(0) * kSide;
    const std::int64_t h = t.block(1);
    const std::int64_t b = t.block(2);
    const int query_count =
        in.queries - first_query < kSide ? static_cast<int>(in.queries - first_query) : kSide;
    const T* value = in.value + in.value_heads.at(b, h / in.of_group, 1);
    const AttentionRange range = keys_in_sight(in, first_query, query_count, kSide);
    if (!range.empty()) {
      Tile::fetch(
          t, p.of.dout + first_query * p.of.dout_heads.row + p.of.dout_heads.at(b, h, in.of_group),
          p.of.dout_heads.row, query_count, in.width, douts);
    }
    const int pair = 2 * (t.lane() % 4);
    const UnfusedMmaRows<T> rows(t, in, first_query, query_count, b);
    float sums[2] = {};
    for (std::int64_t j = range.begin; j < range.end; j += kSide) {
      const std::int64_t key_count = in.keys - j < kSide ? in.keys - j : kSide;
      // Everybody is done with the tile before.
      t.sync();
      Tile::fetch(t, value + j * in.value_heads.row, in.value_heads.row, key_count, in.width,
                  values);
      rows.fetch_keys(t, in, j, key_count, b, key_positions, key_documents);
      t.template cp_wait<0>();
      t.sync();
      const MmaPairs pairs(in, rows.position, rows.document, key_positions, key_documents, pair);
      const bool regular = t.ballot(pairs.regular) == 0xffffffffU;
      if (t.ballot(pairs.seen != 0) == 0) continue;
      float dprobabilities[8][4] = {};
      mma_rows<T, kWidth, 8>(t, douts, 16 * t.warp(), values, dprobabilities);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if (in.dropout.draws) {
          Tile::drop(t, in, h, rows.sample, rows.position, key_positions + 8 * n, pair, regular,
                     in.dropout.multiplier, dprobabilities[n]);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2;
          if (!pairs.sees(n, e) || rows.row[r] >= query_count) continue;
          const T* from = p.of.probabilities.at(b, h, first_query + rows.row[r]) + j;
          sums[r] = fma_of(to_float(from[8 * n + pair + e % 2]), dprobabilities[n][e], sums[r]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      for (int mask = 2; mask > 0; mask /= 2) sums[r] += t.shuffle_xor(sums[r], mask);
      if (pair == 0 && rows.row[r] < query_count) {
        p.delta[(b * in.heads + h) * in.queries + first_query + rows.row[r]] = sums[r];
      }
    }
  }
};

}  // namespace phalanx::cuda
