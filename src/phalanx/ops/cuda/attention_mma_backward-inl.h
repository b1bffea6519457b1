#pragma once
// Attention backward of 16-bit types on tensor cores, fused and unfused: dquery by a block that has
// 64 queries of a head and meets its keys, dkey and dvalue by one that has 64 keys of a group and
// meets the queries of its heads. A warp has 16 rows; scores and their gradients stay in registers,
// as operands of the products that follow. Nothing is added by two blocks.

#include "phalanx/ops/cuda/attention_backward-inl.h"
#include "phalanx/ops/cuda/attention_mma-inl.h"

namespace phalanx::cuda {

// sums[n] += 16 rows of `left` times the 8 rows n of `right`, over all columns.
template <typename T, int kWidth, int kBlocks>
PHALANX_DEVICE void mma_rows(Thread& t, T* left, int first_row, T* right,
                             float (&sums)[kBlocks][4]) {
  using Tile = AttentionMmaForwardKernel<T, kWidth>;
  const int matrix = t.lane() / 8;
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    std::uint32_t rows[4];
    t.ldmatrix_x4(
        rows, Tile::chunk_at(left, first_row + matrix % 2 * 8 + t.lane() % 8, 2 * k + matrix / 2));
#pragma unroll
    for (int n = 0; n < kBlocks / 2; ++n) {
      std::uint32_t parts[4];
      t.ldmatrix_x4(
          parts, Tile::chunk_at(right, 16 * n + matrix / 2 * 8 + t.lane() % 8, 2 * k + matrix % 2));
      t.template mma<T>(sums[2 * n], rows, parts[0], parts[1]);
      t.template mma<T>(sums[2 * n + 1], rows, parts[2], parts[3]);
    }
  }
}

// sums += weights (16 rows by 8 kBlocks) times the rows of `right`.
template <typename T, int kWidth, int kBlocks>
PHALANX_DEVICE void mma_weighted(Thread& t, const float (&weights)[kBlocks][4], T* right,
                                 float (&sums)[kWidth / 8][4]) {
  using Tile = AttentionMmaForwardKernel<T, kWidth>;
  const int matrix = t.lane() / 8;
#pragma unroll
  for (int k = 0; k < kBlocks / 2; ++k) {
    const std::uint32_t rows[4] = {pack_two<T>(weights[2 * k][0], weights[2 * k][1]),
                                   pack_two<T>(weights[2 * k][2], weights[2 * k][3]),
                                   pack_two<T>(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                                   pack_two<T>(weights[2 * k + 1][2], weights[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      std::uint32_t parts[4];
      t.ldmatrix_x4_trans(
          parts, Tile::chunk_at(right, 16 * k + matrix % 2 * 8 + t.lane() % 8, 2 * n + matrix / 2));
      t.template mma<T>(sums[2 * n], rows, parts[0], parts[1]);
      t.template mma<T>(sums[2 * n + 1], rows, parts[2], parts[3]);
    }
  }
}

// Stores a warp's 16 rows.
template <typename T, int kWidth>
PHALANX_DEVICE void store_mma(const Thread& t, const float (&sums)[kWidth / 8][4], float factor,
                              std::int64_t rows, std::int64_t width, T* to, std::int64_t stride) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const std::int64_t row = 16 * t.warp() + t.lane() / 4 + e / 2 * 8;
      const std::int64_t column = 8 * n + 2 * (t.lane() % 4) + e % 2;
      if (row < rows && column < width)
        to[row * stride + column] = round_to<T>(sums[n][e] * factor);
    }
  }
}

// The same, to rows from `place` on.
template <int kWidth, typename Result>
PHALANX_DEVICE void store_mma_result(const Thread& t, const float (&sums)[kWidth / 8][4],
                                     float factor, std::int64_t rows, std::int64_t width,
                                     const Result& to, std::int64_t place) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const std::int64_t row = 16 * t.warp() + t.lane() / 4 + e / 2 * 8;
      const std::int64_t column = 8 * n + 2 * (t.lane() % 4) + e % 2;
      if (row < rows && column < width) {
        to.put(place + row * to.heads.row + column, sums[n][e] * factor);
      }
    }
  }
}

// Whether a query sees a key.
template <typename T>
PHALANX_DEVICE bool attention_sees(const AttentionOperands<T>& in, std::int32_t query_position,
                                   std::int32_t query_document, std::int32_t key_position,
                                   std::int32_t key_document) {
  if (key_document < 0) return false;
  if (in.documents && key_document != query_document) return false;
  if (!in.causal) return true;
  const std::int64_t distance = std::int64_t{query_position} - key_position;
  return distance >= 0 && (in.window == 0 || distance < in.window);
}

// What a thread of a block of 64 queries has of 64 keys.
struct MmaPairs {
  std::uint32_t seen = 0;  // bit 4 n + e: of number e of the 8 keys n
  bool regular = true;     // keys 4 n .. 4 n + 3 are neighbours that words of one call belong to

  template <typename T>
  PHALANX_DEVICE MmaPairs(const AttentionOperands<T>& in, const std::int32_t (&position)[2],
                          const std::int32_t (&document)[2], const std::int32_t* key_positions,
                          const std::int32_t* key_documents, int pair) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = 8 * n + pair + e % 2;
        if (attention_sees(in, position[e / 2], document[e / 2], key_positions[column],
                           key_documents[column])) {
          seen |= 1U << (4 * n + e);
        }
      }
      const std::int32_t first = key_positions[8 * n + pair / 4 * 4];
      if (first % 4 != 0 || key_positions[8 * n + pair] != first + pair % 4 ||
          key_positions[8 * n + pair + 1] != first + pair % 4 + 1) {
        regular = false;
      }
    }
  }
  PHALANX_DEVICE bool sees(int n, int e) const { return ((seen >> (4 * n + e)) & 1U) != 0; }
};

template <typename T, int kWidth, bool kUnfused>
struct AttentionMmaQueryGradientKernel {
  static constexpr int kThreads = 128;
  static constexpr int kSide = 64;
  // Keys by 8 that are computed at a time: a result of 128 columns leaves few registers.
  static constexpr int kBlocks = kWidth <= 64 ? 8 : 4;
  using Tile = AttentionMmaForwardKernel<T, kWidth>;
  using Params = typename AttentionQueryGradientKernel<T, kUnfused>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return (kUnfused ? 3 : 4) * kSide * kWidth * static_cast<std::int64_t>(sizeof(T)) + 3 * 256;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    T* queries = kUnfused ? nullptr : t.template shared<T>(kSide * kWidth);
    T* douts = t.template shared<T>(kSide * kWidth);
    T* keys = t.template shared<T>(kSide * kWidth);
    T* values = t.template shared<T>(kSide * kWidth);
    auto* key_positions = t.template shared<std::int32_t>(kSide);
    auto* key_documents = t.template shared<std::int32_t>(kSide);
    const std::int64_t first_query = t.block(0) * kSide;
    const std::int64_t h = t.block(1);
    const std::int64_t b = t.block(2);
    const std::int64_t g = h / in.of_group;
    const std::int64_t query_count =
        in.queries - first_query < kSide ? in.queries - first_query : kSide;
    const T* key = in.key + in.key_heads.at(b, g, 1);
    const T* value = in.value + in.value_heads.at(b, g, 1);
    const AttentionRange range = keys_in_sight(in, first_query, query_count, kSide);
    if (!range.empty()) {
      if constexpr (!kUnfused) {
        Tile::fetch(
            t, in.query + first_query * in.query_heads.row + in.query_heads.at(b, h, in.of_group),
            in.query_heads.row, query_count, in.width, queries);
      }
      Tile::fetch(
          t, p.of.dout + first_query * p.of.dout_heads.row + p.of.dout_heads.at(b, h, in.of_group),
          p.of.dout_heads.row, query_count, in.width, douts);
    }
    const int pair = 2 * (t.lane() % 4);
    const float log2e = 1.44269504088896341F;
    const int row[2] = {16 * t.warp() + t.lane() / 4, 16 * t.warp() + t.lane() / 4 + 8};
    std::int32_t position[2];
    std::int32_t document[2];
    const auto place = [&](int r) {
      return first_query + (row[r] < query_count ? row[r] : query_count - 1);
    };
    float lse[2] = {};
    float delta[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int64_t i = place(r);
      position[r] = in.query_rows.position(i, b);
      document[r] = in.query_rows.document(i, b);
      if constexpr (!kUnfused) lse[r] = p.of.lse[(b * in.heads + h) * in.queries + i] * log2e;
      delta[r] = p.of.delta[(b * in.heads + h) * in.queries + i];
    }
    const float scale = in.scale * log2e;
    float dquery[kWidth / 8][4] = {};
    for (std::int64_t j = range.begin; j < range.end; j += kSide) {
      const std::int64_t key_count = in.keys - j < kSide ? in.keys - j : kSide;
      // Everybody is done with the tile before.
      t.sync();
      Tile::fetch(t, key + j * in.key_heads.row, in.key_heads.row, key_count, in.width, keys);
      Tile::fetch(t, value + j * in.value_heads.row, in.value_heads.row, key_count, in.width,
                  values);
      if (t.index() < kSide) {
        const bool valid = t.index() < key_count;
        key_positions[t.index()] = valid ? in.key_rows.position(j + t.index(), b) : 0;
        key_documents[t.index()] = valid ? in.key_rows.document(j + t.index(), b) : -1;
      }
      t.template cp_wait<0>();
      t.sync();
      const MmaPairs pairs(in, position, document, key_positions, key_documents, pair);
      const std::uint32_t lanes = t.ballot(pairs.seen != 0);
      const std::uint32_t regulars = t.ballot(pairs.regular);
      // Rows of a warp that see nothing here have no gradient from here.
      if (lanes == 0) continue;
      // Read again for every tile, so that they need no registers in between.
      const std::int64_t sample[2] = {in.dropout.draws ? in.query_rows.sample(place(0), b) : 0,
                                      in.dropout.draws ? in.query_rows.sample(place(1), b) : 0};
#pragma unroll 1
      for (int part = 0; part < kSide; part += 8 * kBlocks) {
        const std::uint32_t seen = pairs.seen >> (part / 2);
        T* const key_rows = keys + part * kWidth;
        float scores[kBlocks][4] = {};
        float dscores[kBlocks][4] = {};
        if constexpr (!kUnfused) {
          mma_rows<T, kWidth, kBlocks>(t, queries, 16 * t.warp(), key_rows, scores);
        }
        mma_rows<T, kWidth, kBlocks>(t, douts, 16 * t.warp(), values + part * kWidth, dscores);
#pragma unroll
        for (int n = 0; n < kBlocks; ++n) {
          if (in.dropout.draws) {
            Tile::drop(t, in, h, sample, position, key_positions + part + 8 * n, pair,
                       regulars == 0xffffffffU, in.dropout.multiplier, dscores[n]);
          }
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int r = e / 2;
            const int column = part + 8 * n + pair + e % 2;
            const bool sees = ((seen >> (4 * n + e)) & 1U) != 0;
            float probability = 0.0F;
            if constexpr (kUnfused) {
              if (sees && row[r] < query_count) {
                probability =
                    to_float(p.of.probabilities.at(b, h, first_query + row[r])[j + column]);
              }
            } else {
              float score = scores[n][e] * scale;
              if (in.bias != nullptr && sees && row[r] < query_count) {
                score +=
                    log2e *
                    in.bias[h * in.bias_head + (first_query + row[r]) * in.bias_row + j + column];
              }
              probability = sees ? exp2_of(score - lse[r]) : 0.0F;
            }
            dscores[n][e] = sees ? probability * (dscores[n][e] - delta[r]) : 0.0F;
          }
        }
        mma_weighted<T, kWidth, kBlocks>(t, dscores, key_rows, dquery);
      }
    }
    store_mma_result<kWidth>(t, dquery, in.scale, query_count, in.width, p.dquery,
                             p.dquery.at(first_query, b, h, in.of_group));
  }
};

template <typename T, int kWidth, bool kUnfused>
struct AttentionMmaKeyGradientKernel {
  static constexpr int kThreads = 128;
  static constexpr int kSide = 64;
  // Queries of a tile, and by 8 those that are computed at a time: two results of 128 columns leave
  // few registers.
  static constexpr int kQueries = kWidth <= 64 ? 64 : 32;
  static constexpr int kBlocks = kWidth <= 64 ? 8 : 2;
  using Tile = AttentionMmaForwardKernel<T, kWidth>;
  using Params = typename AttentionKeyGradientKernel<T, kUnfused>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return ((kUnfused ? 1 : 2) * kSide + 2 * kQueries) * kWidth *
               static_cast<std::int64_t>(sizeof(T)) +
           4 * 256 + 512;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    T* keys = kUnfused ? nullptr : t.template shared<T>(kSide * kWidth);
    T* values = t.template shared<T>(kSide * kWidth);
    T* queries = t.template shared<T>(kQueries * kWidth);
    T* douts = t.template shared<T>(kQueries * kWidth);
    auto* query_positions = t.template shared<std::int32_t>(kQueries);
    auto* query_documents = t.template shared<std::int32_t>(kQueries);
    auto* lses = t.template shared<float>(kQueries);
    auto* deltas = t.template shared<float>(kQueries);
    auto* samples = t.template shared<std::int64_t>(kQueries);
    const std::int64_t first_key = t.block(0) * kSide;
    const std::int64_t g = t.block(1);
    const std::int64_t b = t.block(2);
    const std::int64_t key_count = in.keys - first_key < kSide ? in.keys - first_key : kSide;
    const AttentionRange range = queries_in_sight(in, first_key, key_count, kQueries);
    if (!range.empty()) {
      if constexpr (!kUnfused) {
        Tile::fetch(t, in.key + first_key * in.key_heads.row + in.key_heads.at(b, g, 1),
                    in.key_heads.row, key_count, in.width, keys);
      }
      Tile::fetch(t, in.value + first_key * in.value_heads.row + in.value_heads.at(b, g, 1),
                  in.value_heads.row, key_count, in.width, values);
    }
    const int pair = 2 * (t.lane() % 4);
    const float log2e = 1.44269504088896341F;
    const float scale = in.scale * log2e;
    const int row[2] = {16 * t.warp() + t.lane() / 4, 16 * t.warp() + t.lane() / 4 + 8};
    std::int32_t position[2];
    std::int32_t document[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool valid = row[r] < key_count;
      position[r] = valid ? in.key_rows.position(first_key + row[r], b) : 0;
      document[r] = valid ? in.key_rows.document(first_key + row[r], b) : -1;
    }
    // Whether keys 4 n .. 4 n + 3 of this warp are neighbours that words of one call belong to.
    bool regular = true;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int32_t first = t.shuffle(position[r], t.lane() / 16 * 16 + t.lane() % 4);
      if (first % 4 != 0 || position[r] != first + t.lane() / 4 % 4) regular = false;
    }
    const bool all_regular = t.ballot(regular) == 0xffffffffU;
    float dkey[kWidth / 8][4] = {};
    float dvalue[kWidth / 8][4] = {};
    for (std::int64_t h = g * in.of_group; h < (g + 1) * in.of_group; ++h) {
      const T* query = in.query + in.query_heads.at(b, h, in.of_group);
      const T* dout = p.of.dout + p.of.dout_heads.at(b, h, in.of_group);
      for (std::int64_t i = range.begin; i < range.end; i += kQueries) {
        const std::int64_t query_count = in.queries - i < kQueries ? in.queries - i : kQueries;
        // Everybody is done with the tile before.
        t.sync();
        // Rows behind the queries are zeros.
        Tile::template fetch<kQueries>(t, query + i * in.query_heads.row, in.query_heads.row,
                                       query_count, in.width, queries);
        Tile::template fetch<kQueries>(t, dout + i * p.of.dout_heads.row, p.of.dout_heads.row,
                                       query_count, in.width, douts);
        if (t.index() < kQueries) {
          const std::int64_t at = i + (t.index() < query_count ? t.index() : query_count - 1);
          query_positions[t.index()] = in.query_rows.position(at, b);
          query_documents[t.index()] = in.query_rows.document(at, b);
          if constexpr (!kUnfused) {
            lses[t.index()] = p.of.lse[(b * in.heads + h) * in.queries + at] * log2e;
          }
          deltas[t.index()] = p.of.delta[(b * in.heads + h) * in.queries + at];
          samples[t.index()] = in.dropout.draws ? in.query_rows.sample(at, b) : 0;
        }
        t.template cp_wait<0>();
        t.sync();
#pragma unroll 1
        for (int part = 0; part < kQueries; part += 8 * kBlocks) {
          std::uint32_t seen = 0;
#pragma unroll
          for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int column = part + 8 * n + pair + e % 2;
              if (column < query_count &&
                  attention_sees(in, query_positions[column], query_documents[column],
                                 position[e / 2], document[e / 2])) {
                seen |= 1U << (4 * n + e);
              }
            }
          }
          if (t.ballot(seen != 0) == 0) continue;
          float scores[kBlocks][4] = {};
          float dscores[kBlocks][4] = {};
          if constexpr (!kUnfused) {
            mma_rows<T, kWidth, kBlocks>(t, keys, 16 * t.warp(), queries + part * kWidth, scores);
          }
          mma_rows<T, kWidth, kBlocks>(t, values, 16 * t.warp(), douts + part * kWidth, dscores);
#pragma unroll
          for (int n = 0; n < kBlocks; ++n) {
            float kept[4] = {1.0F, 1.0F, 1.0F, 1.0F};
            if (in.dropout.draws) {
              drop(t, in, h, samples + part + 8 * n, query_positions + part + 8 * n, position, pair,
                   all_regular, kept);
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int column = part + 8 * n + pair + e % 2;
              const bool sees = ((seen >> (4 * n + e)) & 1U) != 0;
              float probability = 0.0F;
              if constexpr (kUnfused) {
                if (sees) {
                  probability =
                      to_float(p.of.probabilities.at(b, h, i + column)[first_key + row[e / 2]]);
                }
              } else {
                float score = scores[n][e] * scale;
                if (in.bias != nullptr && sees) {
                  score += log2e * in.bias[h * in.bias_head + (i + column) * in.bias_row +
                                           first_key + row[e / 2]];
                }
                probability = sees ? exp2_of(score - lses[column]) : 0.0F;
              }
              // Products of these have the multiplier in the end, as in the forward pass.
              scores[n][e] = kept[e] == 0.0F ? 0.0F : probability;
              dscores[n][e] =
                  sees ? probability * (dscores[n][e] * kept[e] - deltas[column]) : 0.0F;
            }
          }
          mma_weighted<T, kWidth, kBlocks>(t, scores, douts + part * kWidth, dvalue);
          mma_weighted<T, kWidth, kBlocks>(t, dscores, queries + part * kWidth, dkey);
        }
      }
    }
    store_mma_result<kWidth>(t, dkey, in.scale, key_count, in.width, p.dkey,
                             p.dkey.at(first_key, b, g, 1));
    store_mma_result<kWidth>(t, dvalue, in.dropout.draws ? in.dropout.multiplier : 1.0F, key_count,
                             in.width, p.dvalue, p.dvalue.at(first_key, b, g, 1));
  }

  // Multiplies with 0 or 1 / (1 - p): queries pair and pair + 1 of 8, two keys.
  PHALANX_DEVICE static void drop(Thread& t, const AttentionOperands<T>& in, std::int64_t h,
                                  const std::int64_t* samples, const std::int32_t* query_positions,
                                  const std::int32_t (&position)[2], int pair, bool regular,
                                  float (&kept)[4]) {
    const auto draw = [&](int query, std::uint32_t quarter) {
      const auto number = static_cast<std::uint64_t>(samples[query]);
      return philox(
          in.dropout.key_low,
          in.dropout.key_high ^ (static_cast<std::uint32_t>(number >> 32) * 0x85EBCA6BU),
          {{quarter, static_cast<std::uint32_t>(query_positions[query]),
            in.dropout.site + static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(number)}});
    };
    const auto pick = [](const Words4& words, std::uint32_t n) {
      const std::uint32_t low = n % 2 == 0 ? words.at[0] : words.at[1];
      const std::uint32_t high = n % 2 == 0 ? words.at[2] : words.at[3];
      return n < 2 ? low : high;
    };
    std::uint32_t words[4];
    if (regular) {
      // Four lanes have the four keys of a call, and among them four calls: of two queries and of
      // two rows. Each draws one and gives everybody the word of his key.
      const int mine = t.lane() / 4 % 4;
      const std::int32_t inner = mine < 2 ? position[0] : position[1];
      const Words4 own = draw(pair + mine % 2, static_cast<std::uint32_t>(inner) / 4);
      words[0] = words[1] = words[2] = words[3] = 0;
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const int other = mine ^ s;
        const std::uint32_t word =
            t.shuffle_xor(pick(own, static_cast<std::uint32_t>(other)), 4 * s);
        // Call `other` is of element 2 (other / 2) + other % 2, which is `other`.
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (e == other) words[e] = word;
        }
      }
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const auto inner = static_cast<std::uint32_t>(position[e / 2]);
        words[e] = pick(draw(pair + e % 2, inner / 4), inner % 4);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      kept[e] = words[e] < in.dropout.threshold ? 0.0F : in.dropout.multiplier;
    }
  }
};

}  // namespace phalanx::cuda
