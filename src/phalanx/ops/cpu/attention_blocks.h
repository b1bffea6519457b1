#pragma once
// The units of work of attention on the CPU: strips of queries, blocks of keys, and the keys that a
// strip sees. The query rows of all heads that read one key/value head form strips of 48 rows.
// These rows are the SIMD lanes of all scores, [keys][lanes]. So softmax over keys is element-wise
// in the lanes, bits do not depend on the vector width, grouped heads share loaded keys, and no
// product needs a transposed key or value.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/attention.h"
#include "phalanx/ops/cpu/panel_kernel.h"

namespace phalanx::cpu {

inline constexpr int kStripRows = 48;  // query rows of a strip
inline constexpr int kBlockKeys = 256;
inline constexpr int kKeyGroup = 8;  // keys within a block are skipped in groups of this size
inline constexpr int kKeyGroups = kBlockKeys / kKeyGroup;
// Transposing scores reads whole vectors of keys, which may be longer than a group.
inline constexpr int kScoreKeys = kBlockKeys + kKeyGroup;

struct AttentionShape {
  explicit AttentionShape(const ops::AttentionInputs& in);

  std::int64_t rows() const { return heads_per_group * queries; }  // of one key/value head
  std::int64_t strips(std::int64_t size = kStripRows) const { return ceil_div(rows(), size); }
  std::int64_t blocks(std::int64_t size = kBlockKeys) const { return ceil_div(keys, size); }

  std::int64_t queries, keys, batch, heads, groups, width;
  std::int64_t heads_per_group;
  std::int64_t stride;  // floats between rows of copies: the width in whole vectors
};

// Where the rows (query or key, sample, head) of an operand lie. A row must be dense.
class HeadRows {
 public:
  // [s, b, heads, d] or [s, b, groups, heads per group, d]
  static HeadRows of_heads(const Tensor& tensor);
  static HeadRows of_probabilities(const Tensor& tensor) {
    return {tensor, 2, 0, 1};
  }  // [b, heads, sq, sk]
  static HeadRows of_bias(const Tensor& tensor) { return {tensor, 1, -1, 0}; }  // [heads, sq, sk]

  std::byte* at(std::int64_t row, std::int64_t sample, std::int64_t head) const {
    const std::int64_t skipped = group_skip_ == 0 ? 0 : head / heads_per_group_ * group_skip_;
    return data_ + row * row_bytes_ + sample * sample_bytes_ + head * head_bytes_ + skipped;
  }
  DType dtype() const { return dtype_; }

 private:
  HeadRows(const Tensor& tensor, int row_dim, int sample_dim, int head_dim);

  std::byte* data_;
  std::int64_t row_bytes_, sample_bytes_, head_bytes_;
  // Bytes between the last query head of a group and the first of the next group.
  std::int64_t group_skip_ = 0;
  std::int64_t heads_per_group_ = 1;
  DType dtype_;
};

// The inputs of an op, checked and ready for its tasks.
struct AttentionOperands {
  AttentionOperands(const ops::AttentionInputs& in, ProductPrecision products);

  bool drops() const { return op.dropout.probability > 0.0; }

  const ops::AttentionInputs& op;
  AttentionShape shape;
  HeadRows query, key, value;
  std::optional<HeadRows> bias;
  float kept_factor;  // kept probabilities are multiplied by it
  // The kernel for pairs of bf16; null where products are fp32. Also null in the AMX family, whose
  // fused attention is amx_attention.h's and whose unfused attention is fp32.
  const PanelKernel* pairs = nullptr;

  // Numbers in 32 bits of a product's operand.
  std::int64_t group() const { return pairs == nullptr ? 1 : 2; }
  std::int64_t groups_of(std::int64_t numbers) const { return ceil_div(numbers, group()); }
};

void expect_statistic(const char* name, const Tensor& tensor);
// An element of row statistics, [b, heads, sq].
inline float& row_statistic(const Tensor& tensor, std::int64_t sample, std::int64_t head,
                            std::int64_t query) {
  return tensor.as<float>()[sample * tensor.strides[0] + head * tensor.strides[1] +
                            query * tensor.strides[2]];
}

// The smallest and the largest coordinates of some rows; empty while low > high.
struct CoordinateRange {
  std::int32_t position_low = std::numeric_limits<std::int32_t>::max();
  std::int32_t position_high = std::numeric_limits<std::int32_t>::min();
  std::int32_t document_low = std::numeric_limits<std::int32_t>::max();
  std::int32_t document_high = std::numeric_limits<std::int32_t>::min();

  void include(std::int32_t position, std::int32_t document) {
    position_low = std::min(position_low, position);
    position_high = std::max(position_high, position);
    document_low = std::min(document_low, document);
    document_high = std::max(document_high, document);
  }
};

// Up to 48 query rows, or as many as `size` says, that read the same key/value head. Lanes past
// `count` hold zeros.
struct QueryStrip {
  std::int64_t sample;  // of the batch
  std::int64_t group;
  int count;
  std::array<std::int32_t, kStripRows> query;
  std::array<std::int32_t, kStripRows> head;
  CoordinateRange range;
  alignas(64) std::array<std::int32_t, kStripRows> position;
  alignas(64) std::array<std::int32_t, kStripRows> document;
  // Philox counters: the site with the head, and the sample's part of counter and key (which is 0
  // without dropout).
  alignas(64) std::array<std::uint32_t, kStripRows> site;
  alignas(64) std::array<std::uint32_t, kStripRows> sample_low;
  alignas(64) std::array<std::uint32_t, kStripRows> key_high;

  std::byte* row(const HeadRows& rows, int lane) const {
    return rows.at(query[static_cast<std::size_t>(lane)], sample,
                   head[static_cast<std::size_t>(lane)]);
  }
};

QueryStrip load_query_strip(const ops::AttentionInputs& in, const AttentionShape& shape,
                            std::int64_t sample, std::int64_t group, std::int64_t strip,
                            std::int64_t size = kStripRows);

// Consecutive rows of the keys, 256 or fewer. Rows past `count` are padding (document -1).
struct KeyBlock {
  std::int64_t first;
  int count;
  std::array<std::int32_t, kBlockKeys> position;
  std::array<std::int32_t, kBlockKeys> document;
  CoordinateRange range;                           // of the rows that are not padding,
  std::array<CoordinateRange, kKeyGroups> ranges;  // of each group
  std::array<bool, kKeyGroups> padding;            // has padding rows
  bool has_padding;                                // among its rows, or in its last group
};

KeyBlock load_key_block(const ops::AttentionInputs& in, const AttentionShape& shape,
                        std::int64_t sample, std::int64_t first, std::int64_t size = kBlockKeys);

// The keys [first, last) of a block, in whole groups. No query of a strip sees a key outside. All
// queries see all of them, except that some keys of [masked_first, masked_last) are masked.
struct KeySpan {
  int first = 0;
  int last = 0;
  int masked_first = 0;
  int masked_last = 0;

  bool empty() const { return first == last; }
  int count() const { return last - first; }
};

// The keys of a block that a strip's queries see. mask_scores() of attention_scores-inl.h applies
// the same rule to one query and one key.
KeySpan visible_span(const ops::AttentionMask& mask, const CoordinateRange& queries,
                     const KeyBlock& block);

// Prefetches rows into the caches, a few at each step. The hardware does not prefetch strided rows
// in time.
class RowPrefetch {
 public:
  // Queues the rows [first, last); does nothing if too many ranges wait.
  void add(const HeadRows& rows, std::int64_t first, std::int64_t last, std::int64_t sample,
           std::int64_t head, std::int64_t width);
  // Queues the rows of a strip in one of the query tensors.
  void add_strip(const HeadRows& rows, const AttentionShape& shape, std::int64_t sample,
                 std::int64_t group, std::int64_t strip, std::int64_t size = kStripRows);
  void add_keys(const HeadRows& rows, const AttentionShape& shape, std::int64_t sample,
                std::int64_t group, std::int64_t first, std::int64_t size = kBlockKeys);

  void step() {
    for (int i = 0; i < kRowsOfStep && begin_ != end_; ++i) {
      Range& range = ranges_[begin_ % kRanges];
      for (std::int64_t at = 0; at < range.bytes; at += 64) {
        __builtin_prefetch(range.next + at, 0, 2);
      }
      range.next += range.stride;
      if (--range.count == 0) ++begin_;
    }
  }

 private:
  static constexpr int kRowsOfStep = 8;
  static constexpr std::size_t kRanges = 32;

  struct Range {
    const std::byte* next;
    std::int64_t stride, bytes, count;
  };

  std::array<Range, kRanges> ranges_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// Cuts scratch into pieces that start at cache lines. Without memory it only counts.
class FloatArena {
 public:
  explicit FloatArena(float* base) : base_(base) {}
  float* take(std::int64_t count) {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(count, 16);
    return piece;
  }
  std::int64_t used() const { return used_; }

 private:
  float* base_;
  std::int64_t used_ = 0;
};

// Matrices with rows (head, query) and columns of keys, such as the bias, are copied in pieces of
// this many keys.
inline constexpr int kColumnPiece = 64;

struct ColumnScratch {
  float* rows;   // [48][64]
  float* lanes;  // [64][48]

  void take(FloatArena& arena) {
    rows = arena.take(kStripRows * kColumnPiece);
    lanes = arena.take(kStripRows * kColumnPiece);
  }
};

// The state of the online softmax for the rows of a strip.
struct SoftmaxState {
  float* maximum;  // of the scores
  float* sum;      // of the exponentials relative to the maximum

  void take(FloatArena& arena) {
    maximum = arena.take(kStripRows);
    sum = arena.take(kStripRows);
  }
  void reset() const {
    std::fill(maximum, maximum + kStripRows, -std::numeric_limits<float>::infinity());
    std::fill(sum, sum + kStripRows, 0.0F);
  }
};

}  // namespace phalanx::cpu
