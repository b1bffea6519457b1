#include "phalanx/ops/cpu/attention_blocks.h"

#include <algorithm>

#include "phalanx/ops/cpu/kernel_type.h"
#include "phalanx/ops/cpu/panel_kernels.h"

namespace phalanx::cpu {
namespace {

enum class Seen { kNone, kSome, kAll };

// Compares the coordinates of a range of queries with those of a range of keys.
Seen keys_seen(const ops::AttentionMask& mask, const CoordinateRange& queries,
               const CoordinateRange& keys, bool padding) {
  if (keys.position_low > keys.position_high) return Seen::kNone;
  Seen result = padding ? Seen::kSome : Seen::kAll;
  if (mask.causal) {
    if (keys.position_low > queries.position_high) return Seen::kNone;
    if (keys.position_high > queries.position_low) result = Seen::kSome;
  }
  if (mask.window > 0) {
    const auto distance = [](std::int64_t query, std::int64_t key) { return query - key; };
    if (distance(queries.position_low, keys.position_high) >= mask.window) return Seen::kNone;
    if (distance(queries.position_high, keys.position_low) >= mask.window) result = Seen::kSome;
  }
  if (mask.documents) {
    if (keys.document_low > queries.document_high || keys.document_high < queries.document_low) {
      return Seen::kNone;
    }
    const bool one_document =
        keys.document_low == keys.document_high && queries.document_low == queries.document_high;
    if (!one_document) result = Seen::kSome;
  }
  return result;
}

// One column of a [s, b] tensor.
template <typename T>
class Column {
 public:
  Column(const Tensor& tensor, std::int64_t sample)
      : data_(tensor.as<T>() + sample * tensor.strides[1]), stride_(tensor.strides[0]) {}
  T operator[](std::int64_t row) const { return data_[row * stride_]; }

 private:
  const T* data_;
  std::int64_t stride_;
};

}  // namespace

AttentionShape::AttentionShape(const ops::AttentionInputs& in)
    : queries(in.query.shape[0]),
      keys(in.key.shape[0]),
      batch(in.query.shape[1]),
      heads(in.query.shape.rank() == 5 ? in.query.shape[2] * in.query.shape[3] : in.query.shape[2]),
      groups(in.key.shape[2]),
      width(in.query.shape.back()),
      heads_per_group(heads / groups),
      stride(round_up(width, 16)) {}

HeadRows::HeadRows(const Tensor& tensor, int row_dim, int sample_dim, int head_dim)
    : data_(tensor.data()),
      row_bytes_(tensor.strides[row_dim] * size_of(tensor.dtype)),
      sample_bytes_(sample_dim < 0 ? 0 : tensor.strides[sample_dim] * size_of(tensor.dtype)),
      head_bytes_(tensor.strides[head_dim] * size_of(tensor.dtype)),
      dtype_(tensor.dtype) {
  PHALANX_CHECK(dtype_ == DType::kF32 || dtype_ == DType::kBF16 || dtype_ == DType::kF16,
                "attention on the CPU takes f32, bf16 and f16, not {}", name_of(dtype_));
}

HeadRows HeadRows::of_heads(const Tensor& tensor) {
  if (tensor.shape.rank() == 4) return {tensor, 0, 1, 2};
  HeadRows rows(tensor, 0, 1, 3);
  rows.heads_per_group_ = tensor.shape[3];
  rows.group_skip_ =
      tensor.strides[2] * size_of(tensor.dtype) - rows.heads_per_group_ * rows.head_bytes_;
  return rows;
}

AttentionOperands::AttentionOperands(const ops::AttentionInputs& in, ProductPrecision products)
    : op(in),
      shape(in),
      query(HeadRows::of_heads(in.query)),
      key(HeadRows::of_heads(in.key)),
      value(HeadRows::of_heads(in.value)),
      kept_factor(static_cast<float>(1.0 / (1.0 - in.dropout.probability))) {
  expect_kernel_type(in.query.dtype);
  if (in.bias) bias = HeadRows::of_bias(in.bias);
  if (products == ProductPrecision::kBf16 && in.query.dtype == DType::kBF16) {
    pairs = &panel_kernel_bf16();
  }
}

void expect_statistic(const char* name, const Tensor& tensor) {
  PHALANX_CHECK(tensor.dtype == DType::kF32, "attention on the CPU: {} holds {}, expected f32",
                name, name_of(tensor.dtype));
}

QueryStrip load_query_strip(const ops::AttentionInputs& in, const AttentionShape& shape,
                            std::int64_t sample, std::int64_t group, std::int64_t strip,
                            std::int64_t size) {
  QueryStrip result{};
  result.sample = sample;
  result.group = group;
  const Column<std::int64_t> samples(in.query_rows.sample, sample);
  const Column<std::int32_t> positions(in.query_rows.position, sample);
  const Column<std::int32_t> documents(in.query_rows.document, sample);
  const std::int64_t first = strip * size;
  result.count = static_cast<int>(std::min<std::int64_t>(size, shape.rows() - first));
  std::int64_t query = first % shape.queries;
  std::int64_t head = group * shape.heads_per_group + first / shape.queries;
  for (std::size_t lane = 0; lane < static_cast<std::size_t>(result.count); ++lane) {
    const auto consumed = static_cast<std::uint64_t>(samples[query]);
    result.query[lane] = static_cast<std::int32_t>(query);
    result.head[lane] = static_cast<std::int32_t>(head);
    result.position[lane] = positions[query];
    result.document[lane] = documents[query];
    result.site[lane] = in.dropout.site + static_cast<std::uint32_t>(head);
    result.sample_low[lane] = static_cast<std::uint32_t>(consumed);
    if (in.dropout.probability > 0.0) {
      result.key_high[lane] = dropout_sample_key(in.dropout.key, consumed).high;
    }
    result.range.include(result.position[lane], result.document[lane]);
    if (++query == shape.queries) {
      query = 0;
      ++head;
    }
  }
  return result;
}

KeyBlock load_key_block(const ops::AttentionInputs& in, const AttentionShape& shape,
                        std::int64_t sample, std::int64_t first, std::int64_t size) {
  KeyBlock result{};
  result.first = first;
  result.count = static_cast<int>(std::min(size, shape.keys - first));
  const Column<std::int32_t> positions(in.key_rows.position, sample);
  const Column<std::int32_t> documents(in.key_rows.document, sample);
  result.has_padding = result.count % kKeyGroup != 0;  // their group's other rows
  for (std::size_t i = 0; i < kBlockKeys; ++i) {
    std::int32_t position = 0;
    std::int32_t document = -1;
    if (i < static_cast<std::size_t>(result.count)) {
      const std::int64_t row = result.first + static_cast<std::int64_t>(i);
      position = positions[row];
      document = documents[row];
    }
    result.position[i] = position;
    result.document[i] = document;
    if (document < 0) {
      result.padding[i / kKeyGroup] = true;
      if (i < static_cast<std::size_t>(result.count)) result.has_padding = true;
    } else {
      result.range.include(position, document);
      result.ranges[i / kKeyGroup].include(position, document);
    }
  }
  return result;
}

void RowPrefetch::add(const HeadRows& rows, std::int64_t first, std::int64_t last,
                      std::int64_t sample, std::int64_t head, std::int64_t width) {
  if (first >= last || end_ - begin_ == kRanges) return;
  const std::byte* row = rows.at(first, sample, head);
  ranges_[end_++ % kRanges] = {.next = row,
                               .stride = rows.at(first + 1, sample, head) - row,
                               .bytes = width * size_of(rows.dtype()),
                               .count = last - first};
}

void RowPrefetch::add_strip(const HeadRows& rows, const AttentionShape& shape, std::int64_t sample,
                            std::int64_t group, std::int64_t strip, std::int64_t size) {
  const std::int64_t first = strip * size;
  const std::int64_t head = group * shape.heads_per_group + first / shape.queries;
  const std::int64_t query = first % shape.queries;
  add(rows, query, std::min(shape.queries, query + size), sample, head, shape.width);
}

void RowPrefetch::add_keys(const HeadRows& rows, const AttentionShape& shape, std::int64_t sample,
                           std::int64_t group, std::int64_t first, std::int64_t size) {
  add(rows, first, std::min(shape.keys, first + size), sample, group, shape.width);
}

KeySpan visible_span(const ops::AttentionMask& mask, const CoordinateRange& queries,
                     const KeyBlock& block) {
  KeySpan span;
  const Seen all = keys_seen(mask, queries, block.range, block.has_padding);
  if (all == Seen::kNone) return span;
  if (all == Seen::kAll) return {.first = 0, .last = block.count};
  for (int group = 0; group < kKeyGroups; ++group) {
    const auto index = static_cast<std::size_t>(group);
    const Seen seen = keys_seen(mask, queries, block.ranges[index], block.padding[index]);
    if (seen == Seen::kNone) continue;
    const int first = group * kKeyGroup;
    const int last = first + kKeyGroup;
    // Groups between two visible groups are masked, not skipped.
    const bool gap = !span.empty() && span.last < first;
    if (span.empty()) span.first = first;
    if (gap || seen == Seen::kSome) {
      const int masked = gap ? span.last : first;
      if (span.masked_first == span.masked_last) span.masked_first = masked;
      span.masked_last = last;
    }
    span.last = last;
  }
  return span;
}

}  // namespace phalanx::cpu
