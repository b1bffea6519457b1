#pragma once
// Table look-up and its gradients, ops/embedding.h. Forward a thread has 8 columns of a row. For
// gradients rows are sorted by id (id_sort-inl.h). The rows of an id are added in order: of a rare
// one by a warp that has 256 columns, of a frequent one by a block, whose threads fetch many rows
// at a time.

#include "phalanx/ops/cuda/dropout-inl.h"
#include "phalanx/ops/cuda/fault-inl.h"
#include "phalanx/ops/cuda/id_sort-inl.h"

namespace phalanx::cuda {

// y[r] = table[ids[r] - first_row], zeros for an id outside.
template <typename T, typename Stream>
struct EmbeddingForwardKernel : ByEight {
  struct Params {
    Stream* y;
    const T* table;
    std::int64_t stride;  // elements between rows of the table
    const std::int32_t* ids;
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t packs;  // of a row
    std::int64_t first_row;
    std::int64_t table_rows;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const auto [r, i] = place_of_pack(t.block() * kThreads + t.index(), p.packs);
    if (r >= p.rows) return;
    const std::int64_t id = p.ids[r] - p.first_row;
    float values[8] = {};
    if (id >= 0 && id < p.table_rows) {
      load8(p.table + id * p.stride, i, p.columns, p.packed, values);
    }
    store8(p.y + r * p.columns, i, p.columns, p.packed, values);
  }
};

// out = dropout(x + table[ids]).
template <typename T, typename Stream>
struct AddPositionsKernel : ByEight {
  struct Params {
    DropoutPlan plan;
    DropoutShape shape;
    Stream* out;
    const Stream* x;
    const T* table;
    std::int64_t stride;  // elements between rows of the table
    std::int64_t table_rows;
    const std::int32_t* ids;
    FaultReport faults;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const DropoutShape& s = p.shape;
    const auto [r, i] = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (r >= s.rows) return;
    std::int64_t id = p.ids[r];
    if (id < 0 || id >= p.table_rows) {
      if (i == 0) report_fault(t, p.faults, r, id, p.table_rows);
      id = 0;
    }
    float sum[8];
    float more[8];
    load8(p.x + r * s.columns, i, s.columns, s.packed, sum);
    load8(p.table + id * p.stride, i, s.columns, s.packed, more);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += more[e];
    if (p.plan.draws) {
      float multipliers[8];
      dropout8(p.plan, s.sample[r], s.position[r], i, multipliers);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] = rounded<Stream>(sum[e]) * multipliers[e];
    }
    store8(p.out + r * s.columns, i, s.columns, s.packed, sum);
  }
};

// For every id the rows of dy that have it, in order: added to the id's row of the table, or to the
// value of its slot, which the first row of a new slot overwrites.
template <typename T>
struct GradientParams {
  float* sums;
  std::int64_t stride;  // elements between rows of the sums
  const T* dy;
  std::int64_t columns;
  const std::uint64_t* keys;  // sorted
  std::int64_t n;
  const std::int32_t* slots;      // of ids; null: the id's own row
  const std::int32_t* new_slots;  // [n]: not -1 at the first row of a new slot
  bool packed;

  PHALANX_DEVICE std::uint32_t id(std::int64_t j) const { return id_of(keys[j]); }
  PHALANX_DEVICE const T* row(std::uint64_t key) const { return dy + row_of(key) * columns; }
  // The row of the sums; -1: the id has no slot.
  PHALANX_DEVICE std::int64_t target(std::uint32_t id) const {
    return slots != nullptr ? slots[id] : std::int64_t{id};
  }
  PHALANX_DEVICE bool begins_new(std::uint64_t key) const {
    return slots != nullptr && new_slots[row_of(key)] >= 0;
  }
};

// An id is frequent if its sorted rows hold two multiples of this number.
inline constexpr std::int64_t kFrequent = 64;

template <typename T>
struct RareIdsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / 32;
  static constexpr std::int64_t kColumns = std::int64_t{32} * 8;  // of a warp
  static constexpr int kAhead = 4;  // rows that are loaded before they are added
  using Params = GradientParams<T>;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void add(const Stored8<T>& row, float (&sum)[8]) {
    float values[8];
    to_floats(row, values);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += values[e];
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    std::int64_t j = t.block(0) * kWarps + t.warp();
    const std::int64_t c = t.block(1) * kColumns + std::int64_t{8} * t.lane();
    if (j >= p.n || c >= p.columns) return;
    const std::uint64_t first = p.keys[j];
    const std::uint32_t id = id_of(first);
    // The warp of the id's first row has all of them.
    if (id == kNoId || (j > 0 && p.id(j - 1) == id)) return;
    const std::int64_t second_multiple = (j + kFrequent - 1) / kFrequent * kFrequent + kFrequent;
    if (second_multiple < p.n && p.id(second_multiple) == id) return;
    const std::int64_t to = p.target(id);
    if (to < 0) return;
    float sum[8];
    if (p.begins_new(first)) {
      load8(p.row(first), c, p.columns, p.packed, sum);
      ++j;
    } else {
      load8(p.sums + to * p.stride, c, p.columns, p.packed, sum);
    }
    while (j + kAhead <= p.n && p.id(j + kAhead - 1) == id) {
      Stored8<T> ahead[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        load_stored8(p.row(p.keys[j + a]), c, p.columns, p.packed, ahead[a]);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) add(ahead[a], sum);
      j += kAhead;
    }
    for (; j < p.n && p.id(j) == id; ++j) {
      Stored8<T> row;
      load_stored8(p.row(p.keys[j]), c, p.columns, p.packed, row);
      add(row, sum);
    }
    store8(p.sums + to * p.stride, c, p.columns, p.packed, sum);
  }
};

// A block has 256 columns of an id. Its warps fetch the rows of a stage while its threads, each of
// which has a column, add those of the stage before from shared memory.
template <typename T>
struct FrequentIdsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / 32;
  static constexpr std::int64_t kColumns = kThreads;
  static constexpr int kFetched = sizeof(T) == 2 ? 8 : 4;  // rows of a warp in a stage
  static constexpr int kRows = kWarps * kFetched;          // of a stage
  using Params = GradientParams<T>;
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 2 * kRows * kColumns * static_cast<std::int64_t>(sizeof(T));
  }

  // The first j in [low, high) whose id is this one or greater; high if there is none.
  PHALANX_DEVICE static std::int64_t first_of(const Params& p, std::int64_t low, std::int64_t high,
                                              std::uint32_t id) {
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (p.id(middle) < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    T* stages = t.template shared<T>(2 * kRows * kColumns);
    // This block has the id whose first multiple this is.
    const std::int64_t multiple = t.block(0) * kFrequent;
    if (multiple + kFrequent >= p.n) return;
    const std::uint32_t id = p.id(multiple);
    if (id == kNoId || p.id(multiple + kFrequent) != id) return;
    if (multiple > 0 && p.id(multiple - kFrequent) == id) return;
    const std::int64_t to = p.target(id);
    if (to < 0) return;
    std::int64_t begin = first_of(p, multiple > 0 ? multiple - kFrequent : 0, multiple, id);
    const std::int64_t end = first_of(p, multiple + kFrequent, p.n, id + 1);

    const std::int64_t columns = t.block(1) * kColumns;
    const std::int64_t own = columns + t.index();
    const bool has_column = own < p.columns;
    float sum = 0.0F;
    const std::uint64_t first = p.keys[begin];
    const bool begins_new = p.begins_new(first);
    if (has_column) {
      sum = begins_new ? to_float(p.row(first)[own]) : p.sums[to * p.stride + own];
    }
    if (begins_new) ++begin;

    const std::int64_t c = columns + std::int64_t{8} * t.lane();
    std::uint64_t keys[kFetched];
    Stored8<T> fetched[kFetched];
    const auto fetch_keys = [&](std::int64_t from) {
#pragma unroll
      for (int a = 0; a < kFetched; ++a) {
        const std::int64_t j = from + a * kWarps + t.warp();
        keys[a] = p.keys[j < end ? j : end - 1];
      }
    };
    const auto fetch_rows = [&] {
#pragma unroll
      for (int a = 0; a < kFetched; ++a) {
        load_stored8(p.row(keys[a]), c, p.columns, p.packed, fetched[a]);
      }
    };
    const auto keep_rows = [&](T* stage) {
      constexpr int kPack = Stored8<T>::kPack;
#pragma unroll
      for (int a = 0; a < kFetched; ++a) {
        T* at = stage + (a * kWarps + t.warp()) * kColumns + 8 * t.lane();
#pragma unroll
        for (int part = 0; part < 8 / kPack; ++part) {
          store_pack<kPack>(at + part * kPack, fetched[a].parts[part]);
        }
      }
    };
    fetch_keys(begin);
    fetch_rows();
    fetch_keys(begin + kRows);
    keep_rows(stages);
    t.sync();
    int turn = 0;
    for (std::int64_t j = begin; j < end; j += kRows) {
      const bool more = j + kRows < end;
      if (more) {
        fetch_rows();
        fetch_keys(j + 2 * kRows);
      }
      const T* stage = stages + turn * kRows * kColumns + t.index();
      if (j + kRows <= end) {
#pragma unroll 8
        for (int a = 0; a < kRows; ++a) sum += to_float(stage[a * kColumns]);
      } else {
        for (std::int64_t a = 0; a < end - j; ++a) sum += to_float(stage[a * kColumns]);
      }
      turn ^= 1;
      if (more) keep_rows(stages + turn * kRows * kColumns);
      t.sync();
    }
    if (has_column) p.sums[to * p.stride + own] = sum;
  }
};

// new_slots[r], which is -1 before, = the id of row r where it is the first of an id without a
// slot.
struct MarkNewIdsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    std::int32_t* new_slots;
    const std::uint64_t* keys;
    const std::int32_t* slots;
    std::int64_t n;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t j = t.block() * kThreads + t.index();
    if (j >= p.n) return;
    const std::uint64_t key = p.keys[j];
    const std::uint32_t id = id_of(key);
    if (id == kNoId || (j > 0 && id_of(p.keys[j - 1]) == id) || p.slots[id] >= 0) return;
    p.new_slots[row_of(key)] = static_cast<std::int32_t>(id);
  }
};

// Gives the new ids slots, in the order of their rows. One block; a thread has 4 rows at a time.
struct AssignSlotsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 4;  // of a thread
  static constexpr int kWarps = kThreads / 32;
  struct Params {
    std::int32_t* slots;            // of ids
    std::int32_t* rows;             // of slots
    std::int32_t* count;            // slots in use
    const std::int32_t* new_slots;  // [n, rounded up to 4]
    std::int64_t n;
    std::int64_t most;  // slots
    FaultReport faults;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 2 * kWarps * static_cast<std::int64_t>(sizeof(std::int32_t));
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    // Two, in turn, so that one barrier a step is enough.
    auto* of_warps = t.template shared<std::int32_t>(2 * kWarps);
    std::int32_t slot = *p.count;
    for (std::int64_t begin = 0; begin < p.n; begin += kThreads * kRows) {
      const std::int64_t r = begin + std::int64_t{kRows} * t.index();
      std::int32_t ids[kRows];
      std::int32_t own = 0;
#pragma unroll
      for (int e = 0; e < kRows; ++e) {
        ids[e] = r + e < p.n ? p.new_slots[r + e] : -1;
        own += ids[e] >= 0 ? 1 : 0;
      }
      std::int32_t upto = own;  // of this lane and those in front
      for (int d = 1; d < 32; d *= 2) {
        const std::int32_t before = t.shuffle(upto, t.lane() - d);
        if (t.lane() >= d) upto += before;
      }
      std::int32_t* const sums = of_warps + begin / (kThreads * kRows) % 2 * kWarps;
      if (t.lane() == 31) sums[t.warp()] = upto;
      t.sync();
      std::int32_t mine = slot + upto - own;
      for (int w = 0; w < kWarps; ++w) {
        if (w < t.warp()) mine += sums[w];
        slot += sums[w];
      }
#pragma unroll
      for (int e = 0; e < kRows; ++e) {
        if (ids[e] < 0) continue;
        if (mine < p.most) {
          p.slots[ids[e]] = mine;
          p.rows[mine] = ids[e];
        } else {
          report_fault(t, p.faults, r + e, mine, p.most);
        }
        ++mine;
      }
    }
    if (t.index() == 0) {
      *p.count = slot < p.most ? slot : static_cast<std::int32_t>(p.most);
    }
  }
};

// dtable[rows[slot]] += values[slot] for slots below the count.
struct JoinSlotsKernel : ByEight {
  struct Params {
    float* dtable;
    std::int64_t table_stride;
    const float* values;
    std::int64_t stride;
    const std::int32_t* rows;
    const std::int32_t* count;
    std::int64_t most;  // slots
    std::int64_t columns;
    std::int64_t packs;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const auto [slot, i] = place_of_pack(t.block() * kThreads + t.index(), p.packs);
    if (slot >= p.most || slot >= *p.count) return;
    float* to = p.dtable + p.rows[slot] * p.table_stride;
    float sum[8];
    float more[8];
    load8(to, i, p.columns, p.packed, sum);
    load8(p.values + slot * p.stride, i, p.columns, p.packed, more);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += more[e];
    store8(to, i, p.columns, p.packed, sum);
  }
};

// slots[rows[slot]] = -1 for slots below the count.
struct FreeSlotsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    std::int32_t* slots;
    const std::int32_t* rows;
    const std::int32_t* count;
    std::int64_t most;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t slot = t.block() * kThreads + t.index();
    if (slot < p.most && slot < *p.count) p.slots[p.rows[slot]] = -1;
  }
};

}  // namespace phalanx::cuda
