#pragma once
// Attention forward of 16-bit types on tensor cores. A block of 4 warps has 64 queries of a head; a
// warp has 16, whose scores with 64 keys stay in registers, and so do the probabilities, which are
// operands of the second product as they lie. Rows of keys and values are in shared memory in
// chunks of 16 bytes, chunk c of row r at c ^ (r & 7), so that ldmatrix meets no bank twice.

#include "phalanx/ops/cuda/attention-inl.h"
#include "phalanx/ops/cuda/mma_product-inl.h"

namespace phalanx::cuda {

// What all queries of a block have in common, and what that says of a key.
struct AttentionBounds {
  std::int32_t least_position;
  std::int32_t largest_position;
  std::int32_t least_document;
  std::int32_t largest_document;

  template <typename T>
  PHALANX_DEVICE bool all_see(const AttentionOperands<T>& in, std::int32_t position,
                              std::int32_t document) const {
    if (document < 0) return false;
    if (in.documents && (least_document != document || largest_document != document)) return false;
    if (!in.causal) return true;
    return position <= least_position &&
           (in.window == 0 || std::int64_t{largest_position} - position < in.window);
  }
  template <typename T>
  PHALANX_DEVICE bool none_sees(const AttentionOperands<T>& in, std::int32_t position,
                                std::int32_t document) const {
    if (document < 0) return true;
    if (in.documents && (document < least_document || document > largest_document)) return true;
    if (!in.causal) return false;
    return position > largest_position ||
           (in.window != 0 && std::int64_t{least_position} - position >= in.window);
  }
};

// kWidth: 64 or 128 columns in shared memory; heads may be narrower.
template <typename T, int kWidth>
struct AttentionMmaForwardKernel {
  static constexpr int kThreads = 128;
  static constexpr int kSide = 64;
  static constexpr int kChunks = kWidth / 8;  // of a row
  using Params = typename AttentionForwardKernel<T>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 5 * kSide * kWidth * static_cast<std::int64_t>(sizeof(T)) + 2 * 768 + 2 * 128;
  }

  PHALANX_DEVICE static T* chunk_at(T* rows, int row, int chunk) {
    return rows + row * kWidth + (chunk ^ (row & 7)) * 8;
  }
  // `kRows` rows of a head.
  template <int kRows = kSide>
  PHALANX_DEVICE static void fetch(Thread& t, const T* from, std::int64_t stride, std::int64_t rows,
                                   std::int64_t width, T* to) {
    // A thread's rows are a multiple of 8 apart, so that one place in shared memory tells all;
    // places in memory are summed up, which takes few registers.
    constexpr int kStep = kThreads / kChunks;
    const int chunk = t.index() % kChunks;
    int row = t.index() / kChunks;
    T* const target = chunk_at(to, row, chunk);
    std::int64_t place = row * stride + chunk * 8;
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      const bool valid = row < rows && chunk * 8 < width;
      t.cp_async16(target + i * kStep * kWidth, from + (valid ? place : 0), valid);
      row += kStep;
      place += kStep * stride;
    }
    t.cp_commit();
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const AttentionOperands<T>& in = p.in;
    T* queries = t.template shared<T>(kSide * kWidth);
    T* keys_of_tiles = t.template shared<T>(2 * kSide * kWidth);
    T* values_of_tiles = t.template shared<T>(2 * kSide * kWidth);
    auto* key_positions_of_tiles = t.template shared<std::int32_t>(3 * kSide);
    auto* key_documents_of_tiles = t.template shared<std::int32_t>(3 * kSide);
    auto* flags = t.template shared<std::uint32_t>(18);
    auto* bounds_of_warps = t.template shared<AttentionBounds>(4);

    const std::int64_t first_query = t.block(0) * kSide;
    const std::int64_t h = t.block(1);
    const std::int64_t b = t.block(2);
    const std::int64_t g = h / in.of_group;
    const std::int64_t query_count =
        in.queries - first_query < kSide ? in.queries - first_query : kSide;
    const T* key = in.key + in.key_heads.at(b, g, 1);
    const T* value = in.value + in.value_heads.at(b, g, 1);
    fetch(t, in.query + first_query * in.query_heads.row + in.query_heads.at(b, h, in.of_group),
          in.query_heads.row, query_count, in.width, queries);

    // This thread's rows are g and g + 8 of its warp's 16.
    const int row_in_warp = t.lane() / 4;
    const int pair = 2 * (t.lane() % 4);
    const int row[2] = {16 * t.warp() + row_in_warp, 16 * t.warp() + row_in_warp + 8};
    std::int32_t position[2];
    std::int32_t document[2];
    // A row behind the last one is a copy of it.
    const auto place = [&](int r) {
      return first_query + (row[r] < query_count ? row[r] : query_count - 1);
    };
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      position[r] = in.query_rows.position(place(r), b);
      document[r] = in.query_rows.document(place(r), b);
    }
    AttentionBounds bounds{position[0], position[0], document[0], document[0]};
    const auto widen = [&bounds](const AttentionBounds& more) {
      if (more.least_position < bounds.least_position) bounds.least_position = more.least_position;
      if (more.largest_position > bounds.largest_position) {
        bounds.largest_position = more.largest_position;
      }
      if (more.least_document < bounds.least_document) bounds.least_document = more.least_document;
      if (more.largest_document > bounds.largest_document) {
        bounds.largest_document = more.largest_document;
      }
    };
    widen({position[1], position[1], document[1], document[1]});
    for (int mask = 16; mask > 2; mask /= 2) {
      widen({t.shuffle_xor(bounds.least_position, mask),
             t.shuffle_xor(bounds.largest_position, mask),
             t.shuffle_xor(bounds.least_document, mask),
             t.shuffle_xor(bounds.largest_document, mask)});
    }
    if (t.lane() == 0) bounds_of_warps[t.warp()] = bounds;
    t.template cp_wait<0>();
    t.sync();
    for (int w = 0; w < 4; ++w) widen(bounds_of_warps[w]);

    const auto load_queries = [&](int k, std::uint32_t(&parts)[4]) {
      const int matrix = t.lane() / 8;
      t.ldmatrix_x4(parts, chunk_at(queries, 16 * t.warp() + matrix % 2 * 8 + t.lane() % 8,
                                    2 * k + matrix / 2));
    };
    // There are registers for narrow rows; wide ones are read again.
    constexpr int kKept = kWidth <= 64 ? kWidth / 16 : 1;
    std::uint32_t query_parts[kKept][4];
#pragma unroll
    for (int k = 0; k < kKept; ++k) load_queries(k, query_parts[k]);

    float largest[2] = {-attention_infinity(), -attention_infinity()};
    float sums[2] = {};
    float out[kWidth / 8][4] = {};
    // Scores are in units of log 2, so that a power is one instruction.
    const float log2e = 1.44269504088896341F;
    const float scale = in.scale * log2e;
    // Tile n of the keys has half n % 2 of the rows and part n % 3 of coordinates and flags. While
    // a tile is computed, the rows of the next one come, and two warps look at coordinates of the
    // one after that, which says whether its rows are needed.
    const AttentionRange range = keys_in_sight(in, first_query, query_count, kSide);
    const auto look = [&](std::int64_t j, int part) {
      if (t.warp() >= 2 || j >= range.end) return;
      const bool valid = j + t.index() < in.keys;
      const std::int32_t own_position = valid ? in.key_rows.position(j + t.index(), b) : 0;
      const std::int32_t own_document = valid ? in.key_rows.document(j + t.index(), b) : -1;
      const std::uint32_t all = t.ballot(bounds.all_see(in, own_position, own_document));
      const std::uint32_t none = t.ballot(bounds.none_sees(in, own_position, own_document));
      const std::int32_t first = t.shuffle(own_position, 0);
      const std::uint32_t regular =
          t.ballot(first % 4 == 0 && (!valid || own_position == first + t.lane()));
      if (t.lane() == 0) {
        std::uint32_t* const of_warp = flags + 6 * part + 3 * t.warp();
        of_warp[0] = all;
        of_warp[1] = none;
        of_warp[2] = regular;
      }
      key_positions_of_tiles[part * kSide + t.index()] = own_position;
      key_documents_of_tiles[part * kSide + t.index()] = own_document;
    };
    // Flag 0: everybody sees all keys of the tile. 1: nobody sees one. 2: four neighbours have
    // words of one call.
    const auto says = [&](int flag, int part) {
      return (flags[6 * part + flag] & flags[6 * part + 3 + flag]) == 0xffffffffU;
    };
    const auto fetch_tile = [&](std::int64_t j, int half) {
      const std::int64_t key_count = in.keys - j < kSide ? in.keys - j : kSide;
      fetch(t, key + j * in.key_heads.row, in.key_heads.row, key_count, in.width,
            keys_of_tiles + half * kSide * kWidth);
      fetch(t, value + j * in.value_heads.row, in.value_heads.row, key_count, in.width,
            values_of_tiles + half * kSide * kWidth);
    };
    if (range.begin < range.end) fetch_tile(range.begin, 0);
    look(range.begin, 0);
    look(range.begin + kSide, 1);
    int half = 0;
    int part = 0;
    for (std::int64_t j = range.begin; j < range.end; j += kSide) {
      const int next = part == 2 ? 0 : part + 1;
      const int this_part = part;
      t.template cp_wait<0>();
      // What was written for this tile and the next one is there, and everybody is done with the
      // tile before, whose memory is used again.
      t.sync();
      if (j + kSide < range.end && !says(1, next)) fetch_tile(j + kSide, half ^ 1);
      look(j + 2 * kSide, next == 2 ? 0 : next + 1);
      T* const keys = keys_of_tiles + half * kSide * kWidth;
      T* const values = values_of_tiles + half * kSide * kWidth;
      half ^= 1;
      part = next;
      if (says(1, this_part)) continue;
      const bool all_see = says(0, this_part);
      const bool regular = says(2, this_part);
      const std::int32_t* const key_positions = key_positions_of_tiles + this_part * kSide;
      const std::int32_t* const key_documents = key_documents_of_tiles + this_part * kSide;

      float scores[8][4] = {};
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) {
        if constexpr (kKept == 1) load_queries(k, query_parts[0]);
        const std::uint32_t(&left)[4] = query_parts[kKept == 1 ? 0 : k];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          std::uint32_t parts[4];
          const int matrix = t.lane() / 8;
          t.ldmatrix_x4(parts,
                        chunk_at(keys, 16 * n + matrix / 2 * 8 + t.lane() % 8, 2 * k + matrix % 2));
          t.template mma<T>(scores[2 * n], left, parts[0], parts[1]);
          t.template mma<T>(scores[2 * n + 1], left, parts[2], parts[3]);
        }
      }
      float most[2] = {largest[0], largest[1]};
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2;
          const int column = 8 * n + pair + e % 2;
          float score = scores[n][e] * scale;
          bool sees = true;
          if (!all_see) {
            sees = key_documents[column] >= 0;
            if (in.documents && key_documents[column] != document[r]) sees = false;
            if (in.causal) {
              const std::int64_t distance = std::int64_t{position[r]} - key_positions[column];
              if (distance < 0 || (in.window != 0 && distance >= in.window)) sees = false;
            }
          }
          if (in.bias != nullptr && sees && row[r] < query_count) {
            score += log2e *
                     in.bias[h * in.bias_head + (first_query + row[r]) * in.bias_row + j + column];
          }
          scores[n][e] = sees ? score : -attention_infinity();
          if (scores[n][e] > most[r]) most[r] = scores[n][e];
        }
      }
      float base[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        // Four lanes have a row.
        for (int mask = 2; mask > 0; mask /= 2) {
          const float other = t.shuffle_xor(most[r], mask);
          most[r] = other > most[r] ? other : most[r];
        }
        base[r] = most[r] == -attention_infinity() ? 0.0F : most[r];
        const float shrink = exp2_of(largest[r] - base[r]);
        largest[r] = most[r];
        sums[r] *= shrink;
#pragma unroll
        for (int n = 0; n < kWidth / 8; ++n) {
          out[n][2 * r] *= shrink;
          out[n][2 * r + 1] *= shrink;
        }
      }
      // Read again for every tile, so that they need no registers in between.
      const std::int64_t sample[2] = {in.dropout.draws ? in.query_rows.sample(place(0), b) : 0,
                                      in.dropout.draws ? in.query_rows.sample(place(1), b) : 0};
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          scores[n][e] = exp2_of(scores[n][e] - base[e / 2]);
          sums[e / 2] += scores[n][e];
        }
        if (in.dropout.draws) {
          drop(t, in, h, sample, position, key_positions + 8 * n, pair, regular, 1.0F, scores[n]);
        }
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const std::uint32_t weights[4] = {pack_two<T>(scores[2 * k][0], scores[2 * k][1]),
                                          pack_two<T>(scores[2 * k][2], scores[2 * k][3]),
                                          pack_two<T>(scores[2 * k + 1][0], scores[2 * k + 1][1]),
                                          pack_two<T>(scores[2 * k + 1][2], scores[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < kWidth / 16; ++n) {
          std::uint32_t parts[4];
          const int matrix = t.lane() / 8;
          t.ldmatrix_x4_trans(
              parts, chunk_at(values, 16 * k + matrix % 2 * 8 + t.lane() % 8, 2 * n + matrix / 2));
          t.template mma<T>(out[2 * n], weights, parts[0], parts[1]);
          t.template mma<T>(out[2 * n + 1], weights, parts[2], parts[3]);
        }
      }
    }

    const std::int64_t first_place = p.out.at(first_query, b, h, in.of_group);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      for (int mask = 2; mask > 0; mask /= 2) sums[r] += t.shuffle_xor(sums[r], mask);
      if (row[r] >= query_count) continue;
      // Kept probabilities are multiplied here, behind their one rounding, as on the processor.
      const float kept = in.dropout.draws ? in.dropout.multiplier : 1.0F;
      const float factor = sums[r] == 0.0F ? 0.0F : kept / sums[r];
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = 8 * n + pair + e;
          if (column < in.width) {
            p.out.put(first_place + row[r] * p.out.heads.row + column, out[n][2 * r + e] * factor);
          }
        }
      }
      if (pair == 0) {
        p.lse[(b * in.heads + h) * in.queries + first_query + row[r]] =
            sums[r] == 0.0F
                ? -attention_infinity()
                : static_cast<float>(0.693147180559945309 * static_cast<double>(largest[r]) +
                                     log_of(static_cast<double>(sums[r])));
      }
    }
  }

  // Multiplies with 0 or `kept`: columns pair and pair + 1 of 8 keys, in two rows.
  PHALANX_DEVICE static void drop(Thread& t, const AttentionOperands<T>& in, std::int64_t h,
                                  const std::int64_t (&sample)[2],
                                  const std::int32_t (&position)[2],
                                  const std::int32_t* key_positions, int pair, bool regular,
                                  float kept, float (&weights)[4]) {
    // No array has an index that is known to a lane alone: it would lie in memory.
    const auto draw = [&](bool second, std::uint32_t quarter) {
      const auto number = static_cast<std::uint64_t>(second ? sample[1] : sample[0]);
      return philox(
          in.dropout.key_low,
          in.dropout.key_high ^ (static_cast<std::uint32_t>(number >> 32) * 0x85EBCA6BU),
          {{quarter, static_cast<std::uint32_t>(second ? position[1] : position[0]),
            in.dropout.site + static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(number)}});
    };
    std::uint32_t words[4];
    if (regular) {
      // The four keys of a call are two lanes': the even one draws for the first row, the odd one
      // for the second.
      const bool odd = t.lane() % 2 == 1;
      const Words4 own = draw(odd, static_cast<std::uint32_t>(key_positions[pair / 4 * 4]) / 4);
      const std::uint32_t other0 = t.shuffle_xor(odd ? own.at[0] : own.at[2], 1);
      const std::uint32_t other1 = t.shuffle_xor(odd ? own.at[1] : own.at[3], 1);
      words[0] = odd ? other0 : own.at[0];
      words[1] = odd ? other1 : own.at[1];
      words[2] = odd ? own.at[2] : other0;
      words[3] = odd ? own.at[3] : other1;
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const auto inner = static_cast<std::uint32_t>(key_positions[pair + e % 2]);
        const Words4 own = draw(e > 1, inner / 4);
        const std::uint32_t low = inner % 2 == 0 ? own.at[0] : own.at[1];
        const std::uint32_t high = inner % 2 == 0 ? own.at[2] : own.at[3];
        words[e] = inner % 4 < 2 ? low : high;
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      weights[e] *= words[e] < in.dropout.threshold ? 0.0F : kept;
    }
  }
};

}  // namespace phalanx::cuda
