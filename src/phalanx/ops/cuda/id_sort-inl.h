#pragma once
// Rows of a batch, sorted by id, those of one id in order. A key has the id in its high half and
// the row in its low one, so no two keys are equal and every way of sorting gives the same order:
// blocks of 1,024 in shared memory, then runs are merged two by two.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// The id of rows whose id lies outside of the table: they come last.
inline constexpr std::uint32_t kNoId = 0xffffffffU;

PHALANX_DEVICE std::uint32_t id_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(key >> 32);
}
PHALANX_DEVICE std::int64_t row_of(std::uint64_t key) {
  return static_cast<std::int64_t>(key & 0xffffffffU);
}

// keys = (ids[r] - first_row, r), each block of them sorted.
struct SortBlockKernel {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kKeys = 1024;  // of a block
  struct Params {
    std::uint64_t* keys;
    const std::int32_t* ids;
    std::int64_t n;
    std::int64_t first_row;
    std::int64_t table_rows;
    std::int64_t sorted;  // a power of 2: of a block only so many keys can differ from the last
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return kKeys * static_cast<std::int64_t>(sizeof(std::uint64_t));
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    auto* keys = t.template shared<std::uint64_t>(kKeys);
    const std::int64_t begin = t.block() * kKeys;
    for (std::int64_t e = t.index(); e < p.sorted; e += kThreads) {
      const std::int64_t r = begin + e;
      std::uint64_t key = ~std::uint64_t{0};
      if (r < p.n) {
        const std::int64_t id = p.ids[r] - p.first_row;
        const bool inside = id >= 0 && id < p.table_rows;
        key = (std::uint64_t{inside ? static_cast<std::uint32_t>(id) : kNoId} << 32) |
              static_cast<std::uint64_t>(r);
      }
      keys[e] = key;
    }
    t.sync();
    // Bitonic: runs of `size` keys, rising and falling in turn, become runs of twice that.
    for (std::int64_t size = 2; size <= p.sorted; size *= 2) {
      for (std::int64_t stride = size / 2; stride > 0; stride /= 2) {
        for (std::int64_t pair = t.index(); pair < p.sorted / 2; pair += kThreads) {
          const std::int64_t low = 2 * pair - (pair & (stride - 1));
          const bool rising = (low & size) == 0;
          const std::uint64_t a = keys[low];
          const std::uint64_t b = keys[low + stride];
          if ((a > b) == rising) {
            keys[low] = b;
            keys[low + stride] = a;
          }
        }
        t.sync();
      }
    }
    for (std::int64_t e = t.index(); e < p.sorted && begin + e < p.n; e += kThreads) {
      p.keys[begin + e] = keys[e];
    }
  }
};

// Of each two sorted runs of `run` keys (a power of 2) makes one: a key's place is its place in its
// own run, and how many keys of the other are less.
struct MergeRunsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    std::uint64_t* to;
    const std::uint64_t* from;
    std::int64_t n;
    std::int64_t run;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t e = t.block() * kThreads + t.index();
    if (e >= p.n) return;
    const std::uint64_t key = p.from[e];
    const std::int64_t own = e & ~(p.run - 1);
    const std::int64_t other = own ^ p.run;
    std::int64_t low = other < p.n ? other : p.n;
    std::int64_t high = other + p.run < p.n ? other + p.run : p.n;
    const std::int64_t begin = low;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (p.from[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    p.to[(own < other ? own : other) + (e - own) + (low - begin)] = key;
  }
};

}  // namespace phalanx::cuda
