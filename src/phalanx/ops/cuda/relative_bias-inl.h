#pragma once
// T5's relative position bias, ops/relative_bias.h. The bias of a head depends on key - query
// alone: a line of queries + keys - 1 numbers, at whose place key - query + queries - 1 they stand.
// The row of a query is a window of it.

#include "phalanx/ops/cuda/pack-inl.h"
#include "phalanx/ops/cuda/reduce-inl.h"

namespace phalanx::cuda {

struct BucketPlan {
  static constexpr int kMost = 256;
  std::int32_t begins[kMost];  // the least distance of every bucket of a side
  int of_side;
  bool bidirectional;

  // A place's difference key - query is place - zero.
  PHALANX_DEVICE std::int64_t bucket(std::int64_t difference) const {
    std::int64_t distance = -difference;
    std::int64_t base = 0;
    if (difference > 0) {
      distance = bidirectional ? difference : 0;
      base = bidirectional ? of_side : 0;
    }
    int low = 0;
    int high = of_side;
    while (low + 1 < high) {
      const int middle = (low + high) / 2;
      if (begins[middle] <= distance) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return base + low;
  }
};

// lines[h][place] = table[bucket][first_head + h].
template <typename T>
struct BiasLineKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* lines;
    const T* table;
    std::int64_t table_heads;
    std::int64_t first_head;
    std::int64_t size;  // of a line
    std::int64_t zero;  // the place of difference 0
    BucketPlan plan;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t place = t.block(0) * kThreads + t.index();
    if (place >= p.size) return;
    const std::int64_t h = t.block(1);
    p.lines[h * p.size + place] =
        to_float(p.table[p.plan.bucket(place - p.zero) * p.table_heads + p.first_head + h]);
  }
};

// bias[h][query] = the query's window of the line.
struct BiasWindowsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* bias;  // [heads, queries, keys]
    const float* lines;
    std::int64_t size;
    std::int64_t rows;  // heads queries
    std::int64_t queries;
    std::int64_t keys;
    std::int64_t packs;  // of a row: keys / 8, rounded up
    bool packed;         // rows of the bias begin at multiples of 16 bytes
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const auto [row, i] = place_of_pack(t.block() * kThreads + t.index(), p.packs);
    if (row >= p.rows) return;
    const std::int64_t h = row / p.queries;
    const std::int64_t query = row - h * p.queries;
    float values[8];
    load8(p.lines + h * p.size + p.queries - 1 - query, i, p.keys, false, values);
    store8(p.bias + row * p.keys, i, p.keys, p.packed, values);
  }
};

// sums[h][place] = the sum of dbias over the pairs of a difference, queries in order.
struct BiasDiagonalsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    double* sums;
    const float* dbias;
    std::int64_t size;
    std::int64_t queries;
    std::int64_t keys;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t place = t.block(0) * kThreads + t.index();
    if (place >= p.size) return;
    const std::int64_t h = t.block(1);
    // The key of query i is place - (queries - 1) + i.
    const std::int64_t shift = place - (p.queries - 1);
    const std::int64_t begin = shift < 0 ? -shift : 0;
    const std::int64_t end = p.keys - shift < p.queries ? p.keys - shift : p.queries;
    const float* from = p.dbias + h * p.queries * p.keys + shift;
    double sum = 0.0;
#pragma unroll 8
    for (std::int64_t i = begin; i < end; ++i) {
      sum += static_cast<double>(from[i * (p.keys + 1)]);
    }
    p.sums[h * p.size + place] = sum;
  }
};

// dtable[bucket][first_head + h] += the sums of the bucket's places, in order. A block has a bucket
// of a head; its places follow each other.
struct BucketSumsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* dtable;
    const double* sums;
    std::int64_t table_heads;
    std::int64_t first_head;
    std::int64_t size;
    std::int64_t zero;
    BucketPlan plan;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFetchedTerms * sizeof(double); }
  // The first place of a bucket, where buckets are in the order of places.
  PHALANX_DEVICE static std::int64_t first_place(const Params& p, std::int64_t difference) {
    const std::int64_t place = difference + p.zero;
    return place < 0 ? 0 : place < p.size ? place : p.size;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t bucket = t.block(0);
    const std::int64_t h = t.block(1);
    const bool after = bucket >= p.plan.of_side;  // keys behind the query
    const std::int64_t b = after ? bucket - p.plan.of_side : bucket;
    const bool last = b + 1 == p.plan.of_side;
    // Distances from `near` on, and below `far`.
    const std::int64_t near = p.plan.begins[b];
    const std::int64_t far = last ? p.size + (p.zero < 0 ? -p.zero : p.zero) : p.plan.begins[b + 1];
    std::int64_t begin = 0;
    std::int64_t end = 0;
    if (after) {
      begin = first_place(p, near > 1 ? near : 1);
      end = first_place(p, far);
    } else {
      begin = first_place(p, 1 - far);
      // A stack that looks back alone has all keys behind the query in its first bucket.
      end = b == 0 && !p.plan.bidirectional ? p.size : first_place(p, 1 - near);
    }
    const double* sums = p.sums + h * p.size;
    const double sum = sum_in_order(t, sums + begin, end > begin ? end - begin : 0,
                                    t.template shared<double>(kFetchedTerms));
    if (t.index() != 0) return;
    float& to = p.dtable[bucket * p.table_heads + p.first_head + h];
    to = static_cast<float>(static_cast<double>(to) + sum);
  }
};

}  // namespace phalanx::cuda
