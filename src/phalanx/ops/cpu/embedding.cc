// Table look-up and its gradients. Gradients of the same row are added in order, so threads share
// columns, not rows.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/embedding.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/philox-inl.h"
#include "phalanx/ops/fault.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The row of `id` in a table of `rows` rows from first_row on, or -1 for an id outside.
HWY_INLINE std::int64_t table_row(std::int64_t id, std::int64_t first_row, std::int64_t rows) {
  const std::int64_t row = id - first_row;
  return row >= 0 && row < rows ? row : -1;
}

template <typename T, typename Stream>
void look_up(const CpuDevice& device, const ops::EmbeddingForward& op) {
  const std::int64_t columns = op.y.shape[2];
  const auto table = rows_of<T>(op.table);
  const auto y = rows_of<Stream>(op.y);
  const auto* ids = dense<std::int32_t>(op.ids);
  const Blocks blocks = row_blocks(op.ids.count(), columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const std::int64_t row = table_row(ids[r], op.first_row, op.table.shape[0]);
      if (row < 0) {
        std::fill_n(y[r], columns, Stream());
      } else {
        convert(table[row], y[r], columns);
      }
    }
  });
}

template <typename T, typename Stream>
void add_rows(const CpuDevice& device, const ops::AddPositions& op) {
  const std::int64_t columns = op.x.shape[2];
  const auto table = rows_of<T>(op.table);
  const auto x = rows_of<Stream>(op.x);
  const auto out = rows_of<Stream>(op.out);
  const auto* ids = dense<std::int32_t>(op.ids);
  const HiddenDropout dropout(op.dropout, op.rows);
  const Blocks blocks = row_blocks(op.ids.count(), columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const T* position = table[ids[r]];
      dropout.for_row(r, columns, [&](std::int64_t i, auto lanes, auto drop) HWY_ATTR {
        const auto sum = hn::Add(lanes.load(x[r] + i), lanes.load(position + i));
        lanes.store(drop(round_to<Stream>(sum)), out[r] + i);
      });
    }
  });
}

// to += from.
template <typename T>
HWY_INLINE void add_to(float* to, const T* from, std::int64_t count) {
  for_vectors(0, count, [=](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Add(lanes.load(to + i), lanes.load(from + i)), to + i);
  });
}

template <typename T>
void gradient(const CpuDevice& device, const ops::EmbeddingGradient& op) {
  const auto dtable = rows_of<float>(op.dtable);
  const auto dy = rows_of<T>(op.dy);
  const auto* ids = dense<std::int32_t>(op.ids);
  const std::int64_t rows = op.ids.count();
  const Blocks blocks = column_blocks(op.dy.shape[2]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    const std::int64_t begin = blocks.begin(block);
    const std::int64_t count = blocks.end(block) - begin;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = table_row(ids[r], op.first_row, op.dtable.shape[0]);
      if (row >= 0) add_to(dtable[row] + begin, dy[r] + begin, count);
    }
  });
}

// Slots are assigned already; those from first_new_slot on are new, with these rows in order.
template <typename T>
void sparse_gradient(const CpuDevice& device, const ops::SparseEmbeddingGradient& op,
                     std::int64_t first_new_slot) {
  const auto values = rows_of<float>(op.values);
  const auto dy = rows_of<T>(op.dy);
  const auto* ids = dense<std::int32_t>(op.ids);
  const auto* slots = dense<std::int32_t>(op.slots);
  const std::int64_t rows = op.ids.count();
  const Blocks blocks = column_blocks(op.dy.shape[2]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    const std::int64_t begin = blocks.begin(block);
    const std::int64_t count = blocks.end(block) - begin;
    std::int64_t next_new_slot = first_new_slot;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = table_row(ids[r], op.first_row, op.slots.shape[0]);
      if (row < 0) continue;
      float* value = values[slots[row]] + begin;
      if (slots[row] == next_new_slot) {
        convert(dy[r] + begin, value, count);
        ++next_new_slot;
      } else {
        add_to(value, dy[r] + begin, count);
      }
    }
  });
}

void embedding_forward(const CpuDevice& device, const ops::EmbeddingForward& op) {
  with_stream(op.table.dtype, op.y.dtype, [&](auto type, auto stream) HWY_ATTR {
    look_up<decltype(type), decltype(stream)>(device, op);
  });
}
void add_positions(const CpuDevice& device, const ops::AddPositions& op) {
  with_stream(op.table.dtype, op.out.dtype, [&](auto type, auto stream) HWY_ATTR {
    add_rows<decltype(type), decltype(stream)>(device, op);
  });
}
void embedding_gradient(const CpuDevice& device, const ops::EmbeddingGradient& op) {
  with_storage(op.dy.dtype, [&](auto type) HWY_ATTR { gradient<decltype(type)>(device, op); });
}
void sparse_embedding_gradient(const CpuDevice& device, const ops::SparseEmbeddingGradient& op,
                               std::int64_t first_new_slot) {
  with_storage(op.dy.dtype, [&](auto type) HWY_ATTR {
    sparse_gradient<decltype(type)>(device, op, first_new_slot);
  });
}
void sparse_embedding_join(const CpuDevice& device, const ops::SparseEmbeddingJoin& op) {
  const std::int64_t columns = op.dtable.shape[1];
  const auto dtable = rows_of<float>(op.dtable);
  const auto values = rows_of<float>(op.values);
  const auto* rows = dense<std::int32_t>(op.rows);
  // Every slot has a different row, so slots need no order.
  const Blocks blocks = row_blocks(*dense<std::int32_t>(op.count), columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t slot = blocks.begin(block); slot < blocks.end(block); ++slot) {
      add_to(dtable[rows[slot]], values[slot], columns);
    }
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

PHALANX_KERNEL(EmbeddingForward, embedding_forward)
HWY_EXPORT(add_positions);
PHALANX_KERNEL(EmbeddingGradient, embedding_gradient)
HWY_EXPORT(sparse_embedding_gradient);
HWY_EXPORT(sparse_embedding_join);

void execute(CpuDevice& device, const ops::AddPositions& op, const Tensor& /*scratch*/) {
  std::int64_t row = 0;
  for (const std::int32_t id : op.ids.span<std::int32_t>()) {
    ops::expect_in_range<ops::AddPositions>(row++, id, op.table.shape[0]);
  }
  HWY_DYNAMIC_DISPATCH(add_positions)(device, op);
}

void execute(CpuDevice& device, const ops::SparseEmbeddingGradient& op, const Tensor& /*scratch*/) {
  const auto slots = op.slots.span<std::int32_t>();
  const auto rows = op.rows.span<std::int32_t>();
  std::int32_t& count = *dense<std::int32_t>(op.count);
  const std::int32_t first_new_slot = count;
  for (const std::int32_t id : op.ids.span<std::int32_t>()) {
    const std::int64_t row = id - op.first_row;
    if (row < 0 || row >= op.slots.shape[0]) continue;
    std::int32_t& slot = slots[static_cast<std::size_t>(row)];
    if (slot >= 0) continue;
    ops::expect_in_range<ops::SparseEmbeddingGradient>(row, count, op.rows.shape[0]);
    rows[static_cast<std::size_t>(count)] = static_cast<std::int32_t>(row);
    slot = count++;
  }
  HWY_DYNAMIC_DISPATCH(sparse_embedding_gradient)(device, op, first_new_slot);
}

void execute(CpuDevice& device, const ops::SparseEmbeddingJoin& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(sparse_embedding_join)(device, op);
  const auto slots = op.slots.span<std::int32_t>();
  std::int32_t& count = *dense<std::int32_t>(op.count);
  for (const std::int32_t row :
       op.rows.span<std::int32_t>().first(static_cast<std::size_t>(count))) {
    slots[static_cast<std::size_t>(row)] = -1;
  }
  count = 0;
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
