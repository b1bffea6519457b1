#include "phalanx/ops/cpu/matrix_product.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/flush_to_zero.h"
#include "phalanx/ops/cpu/product_blocks.h"
#include "phalanx/ops/cpu/product_cache.h"
#include "phalanx/ops/cpu/product_rows.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {
namespace {

// Below so many rows B is read as it lies: a copy would cost more than the product.
constexpr std::int64_t kRowsWorthPanels = 48;
// A is staged so many rows at a time.
constexpr std::int64_t kStagedRows = 64;

// The lengths of the pieces of [0, total), each once.
std::set<std::int64_t> piece_lengths(std::int64_t total, std::int64_t piece) {
  std::set<std::int64_t> lengths = {std::min(total, piece)};
  if (total > piece && total % piece != 0) lengths.insert(total % piece);
  return lengths;
}

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kArenaAlignment); }

BlockCopy transposing_copy(std::int64_t rows, std::int64_t columns, DType dtype,
                           std::int64_t from_stride, std::int64_t to_stride) {
  return {.rows = rows,
          .columns = columns,
          .dtype = dtype,
          .from_row_stride = 1,
          .from_column_stride = from_stride,
          .to_row_stride = to_stride};
}

// How one product is done: what is copied where, and how much memory that takes.
struct Method {
  Method(const CpuDevice& device, const MatrixProduct& product);

  // One tile; the first of its sum over chunks of k, or a later one.
  BlockProduct tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool first) const;
  std::set<std::int64_t> tile_heights() const;
  template <typename Visit>
  void for_each_tile_shape(const Visit& visit) const {
    for (const auto depth : piece_lengths(p.k, blocks.k_chunk)) {
      for (const auto columns : piece_lengths(p.n, blocks.n_panel)) {
        for (const auto rows : tile_heights()) {
          for (const bool first : {true, false}) visit(tile(rows, columns, depth, first));
        }
      }
    }
  }
  // Creates every primitive that the threads will ask for.
  void prepare(ProductCache& cache) const;

  MatrixProduct p;
  bool native;      // bf16 operands are multiplied as they are
  DType dtype;      // of the tiles' operands
  bool panels;      // B is copied to dense panels
  bool widened_b;   // no panels, but B is widened as it lies
  bool staged_a;    // A is copied
  bool staged_c;    // tiles are rounded, or added by us, on their way to C
  bool sums_apart;  // sums over chunks of k are kept in fp32 beside a 16-bit C
  ProductBlocks blocks;

  std::int64_t a_stride = 0;
  std::int64_t staged_bytes = 0, sums_bytes = 0;  // shared by the threads
  std::int64_t library_bytes = 0, panel_bytes = 0, widened_bytes = 0, tile_bytes = 0;  // of each
  std::int64_t thread_bytes = 0, total_bytes = 0;
};

Method::Method(const CpuDevice& device, const MatrixProduct& product) : p(product) {
  native = device.products == ProductPrecision::kBf16 && p.a.dtype == DType::kBF16 &&
           p.b.dtype == DType::kBF16;
  dtype = native ? DType::kBF16 : DType::kF32;
  panels = native || p.m >= kRowsWorthPanels;
  widened_b = !panels && p.b.dtype != DType::kF32;
  // oneDNN's fast bf16 products want dense operands.
  staged_a = p.a.transposed || p.a.dtype != dtype || (native && p.a.stride != chunk_of(p.k));
  staged_c = native || p.c.dtype != DType::kF32;
  sums_apart = p.c.dtype != DType::kF32 && chunk_of(p.k) < p.k;
  blocks = choose_blocks(p.m, p.n, p.k, device.threads, staged_a, staged_c || p.biased, sums_apart);

  const std::int64_t depth = blocks.k_chunk;
  const std::int64_t f32 = size_of(DType::kF32);
  // Rows of a power of two would share few cache sets.
  a_stride = native ? depth : depth + 16;
  if (staged_a) staged_bytes = aligned(blocks.m_block * a_stride * size_of(dtype));
  if (sums_apart) sums_bytes = aligned(blocks.m_block * p.n * f32);
  for_each_tile_shape([&](const BlockProduct& shape) {
    library_bytes = std::max(library_bytes, aligned(device.cache->scratch_bytes(shape)));
    if (native) panel_bytes = std::max(panel_bytes, aligned(device.cache->packed_bytes(shape)));
  });
  if (!native && (panels || widened_b)) panel_bytes = aligned(blocks.n_panel * depth * f32);
  if (panels && p.b.transposed && p.b.dtype != dtype) widened_bytes = panel_bytes;
  if (p.a.transposed && p.a.dtype != dtype) {
    widened_bytes = std::max(widened_bytes, aligned(kStagedRows * depth * f32));
  }
  if (staged_c) tile_bytes = aligned(blocks.m_tile * blocks.n_panel * f32);
  thread_bytes = library_bytes + panel_bytes + widened_bytes + tile_bytes;
  total_bytes = staged_bytes + sums_bytes + device.threads * thread_bytes;
}

BlockProduct Method::tile(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                          bool first) const {
  BlockProduct shape{.m = rows, .n = columns, .k = depth, .dtype = dtype};
  shape.a_stride = native ? depth : staged_a ? a_stride : p.a.stride;
  if (!native) {
    const std::int64_t stride = panels           ? columns
                                : !widened_b     ? p.b.stride
                                : p.b.transposed ? depth
                                                 : columns;
    const bool transposed = !panels && p.b.transposed;
    shape.b_row_stride = transposed ? 1 : stride;
    shape.b_column_stride = transposed ? stride : 1;
  }
  shape.c_stride = staged_c ? columns : p.c.stride;
  shape.accumulate = !staged_c && (p.accumulate || !first);
  return shape;
}

std::set<std::int64_t> Method::tile_heights() const {
  std::set<std::int64_t> heights;
  for (const auto block : piece_lengths(p.m, blocks.m_block)) {
    for (const auto part : piece_lengths(block, blocks.m_part)) {
      heights.merge(piece_lengths(part, blocks.m_tile));
    }
  }
  return heights;
}

void Method::prepare(ProductCache& cache) const {
  for_each_tile_shape([&](const BlockProduct& shape) {
    cache.product(shape);
    if (native) {
      cache.pack(shape, p.b.transposed ? 1 : p.b.stride, p.b.transposed ? p.b.stride : 1);
    } else if (panels && p.b.transposed) {
      const std::int64_t from = p.b.dtype == dtype ? p.b.stride : shape.k;
      cache.copy(transposing_copy(shape.k, shape.n, dtype, from, shape.n));
    }
  });
  if (!staged_a) return;
  for (const auto depth : piece_lengths(p.k, blocks.k_chunk)) {
    for (const auto block : piece_lengths(p.m, blocks.m_block)) {
      for (const auto rows : piece_lengths(block, kStagedRows)) {
        const std::int64_t to = native ? depth : a_stride;
        if (p.a.transposed) {
          const std::int64_t from = p.a.dtype == dtype ? p.a.stride : rows;
          cache.copy(transposing_copy(rows, depth, dtype, from, to));
        } else if (native) {
          cache.copy({rows, depth, dtype, p.a.stride, 1, to});
        }
      }
    }
  }
}

// One thread's part of the workspace.
struct Scratch {
  std::byte* library;
  std::byte* panel;
  float* widened;
  float* tile;
};

// A product under way: the block of rows of A and the chunk of k where the loops stand.
class Multiplication {
 public:
  Multiplication(const Method& method, ProductCache& cache, std::byte* workspace)
      : method_(method), p_(method.p), cache_(cache), workspace_(workspace) {}

  void run(int threads);

 private:
  Scratch scratch_of(int thread) const;
  void stage_a(std::int64_t first_row, const Scratch& scratch);
  void do_task(std::int64_t part, std::int64_t panel, const Scratch& scratch);
  const std::byte* ready_panel(std::int64_t j, const BlockProduct& shape, const Scratch& scratch);
  void finish(std::int64_t i, std::int64_t j, const BlockProduct& shape, const float* tile);

  bool first_chunk() const { return depth_begin_ == 0; }
  bool last_chunk() const { return depth_begin_ + depth_ == p_.k; }
  void note(bool succeeded) {
    if (!succeeded) failed_ = true;
  }

  const Method& method_;
  const MatrixProduct& p_;
  ProductCache& cache_;
  std::byte* workspace_;
  std::int64_t row_begin_ = 0, rows_ = 0;
  std::int64_t depth_begin_ = 0, depth_ = 0;
  std::atomic<bool> failed_ = false;
};

void Multiplication::run(int threads) {
  const OneThreadedLibrary guard;
  method_.prepare(cache_);
  const ProductBlocks& blocks = method_.blocks;
  const std::int64_t panels = ceil_div(p_.n, blocks.n_panel);
  for (row_begin_ = 0; row_begin_ < p_.m; row_begin_ += blocks.m_block) {
    rows_ = std::min(blocks.m_block, p_.m - row_begin_);
    const std::int64_t parts = ceil_div(rows_, blocks.m_part);
    for (depth_begin_ = 0; depth_begin_ < p_.k; depth_begin_ += blocks.k_chunk) {
      depth_ = std::min(blocks.k_chunk, p_.k - depth_begin_);
#pragma omp parallel num_threads(threads)
      {
        const FlushToZero mode;
        const Scratch scratch = scratch_of(omp_get_thread_num());
        if (method_.staged_a) {
#pragma omp for schedule(dynamic)
          for (std::int64_t row = 0; row < rows_; row += kStagedRows) stage_a(row, scratch);
        }
#pragma omp for schedule(dynamic)
        for (std::int64_t task = 0; task < panels * parts; ++task) {
          do_task(task % parts, task / parts, scratch);
        }
      }
    }
  }
  PHALANX_CHECK(!failed_, "oneDNN failed in a matrix product of {} x {} x {}", p_.m, p_.n, p_.k);
}

Scratch Multiplication::scratch_of(int thread) const {
  std::byte* library =
      workspace_ + method_.staged_bytes + method_.sums_bytes + thread * method_.thread_bytes;
  std::byte* panel = library + method_.library_bytes;
  std::byte* widened = panel + method_.panel_bytes;
  return {library, panel, reinterpret_cast<float*>(widened),
          reinterpret_cast<float*>(widened + method_.widened_bytes)};
}

// Copies rows of the current block and chunk of A to the front of the workspace.
void Multiplication::stage_a(std::int64_t first_row, const Scratch& scratch) {
  const std::int64_t rows = std::min(kStagedRows, rows_ - first_row);
  const std::int64_t stride = method_.native ? depth_ : method_.a_stride;
  const std::byte* from = p_.a.at(row_begin_ + first_row, depth_begin_);
  std::byte* to = workspace_ + first_row * stride * size_of(method_.dtype);
  const bool widen = p_.a.dtype != method_.dtype;
  if (p_.a.transposed) {
    std::int64_t from_stride = p_.a.stride;
    if (widen) {
      widen_rows({from, p_.a.dtype, p_.a.stride}, depth_, rows, scratch.widened, rows);
      from = reinterpret_cast<const std::byte*>(scratch.widened);
      from_stride = rows;
    }
    const auto shape = transposing_copy(rows, depth_, method_.dtype, from_stride, stride);
    note(cache_.copy(shape).run(from, nullptr, to, nullptr));
  } else if (widen) {
    widen_rows({from, p_.a.dtype, p_.a.stride}, rows, depth_, reinterpret_cast<float*>(to), stride);
  } else {
    const BlockCopy shape{rows, depth_, method_.dtype, p_.a.stride, 1, stride};
    note(cache_.copy(shape).run(from, nullptr, to, nullptr));
  }
}

// B's columns from j on, as the tiles of this shape want them.
const std::byte* Multiplication::ready_panel(std::int64_t j, const BlockProduct& shape,
                                             const Scratch& scratch) {
  const std::byte* from = p_.b.at(depth_begin_, j);
  const std::int64_t stride = p_.b.stride;
  if (method_.native) {
    const auto& pack =
        cache_.pack(shape, p_.b.transposed ? 1 : stride, p_.b.transposed ? stride : 1);
    note(pack.run(from, nullptr, scratch.panel, nullptr));
    return scratch.panel;
  }
  if (!method_.panels && !method_.widened_b) return from;
  auto* panel = reinterpret_cast<float*>(scratch.panel);
  const RowView as_it_lies{from, p_.b.dtype, stride};
  if (!p_.b.transposed) {
    widen_rows(as_it_lies, shape.k, shape.n, panel, shape.n);
  } else if (method_.widened_b) {
    widen_rows(as_it_lies, shape.n, shape.k, panel, shape.k);
  } else {
    std::int64_t from_stride = stride;
    if (p_.b.dtype != method_.dtype) {
      widen_rows(as_it_lies, shape.n, shape.k, scratch.widened, shape.k);
      from = reinterpret_cast<const std::byte*>(scratch.widened);
      from_stride = shape.k;
    }
    const auto copy = transposing_copy(shape.k, shape.n, method_.dtype, from_stride, shape.n);
    note(cache_.copy(copy).run(from, nullptr, scratch.panel, nullptr));
  }
  return scratch.panel;
}

// A panel of B times a part of the rows.
void Multiplication::do_task(std::int64_t part, std::int64_t panel, const Scratch& scratch) {
  const ProductBlocks& blocks = method_.blocks;
  const std::int64_t j = panel * blocks.n_panel;
  const std::int64_t columns = std::min(blocks.n_panel, p_.n - j);
  const std::int64_t begin = part * blocks.m_part;
  const std::int64_t end = std::min(rows_, begin + blocks.m_part);
  const auto shape_of = [&](std::int64_t row) {
    return method_.tile(std::min(blocks.m_tile, end - row), columns, depth_, first_chunk());
  };
  const std::byte* b = ready_panel(j, shape_of(begin), scratch);
  for (std::int64_t row = begin; row < end; row += blocks.m_tile) {
    const BlockProduct shape = shape_of(row);
    const std::int64_t i = row_begin_ + row;
    const std::byte* a = method_.staged_a
                             ? workspace_ + row * shape.a_stride * size_of(method_.dtype)
                             : p_.a.at(i, depth_begin_);
    float* c = method_.staged_c ? scratch.tile : reinterpret_cast<float*>(p_.c.at(i, j));
    note(cache_.product(shape).run(a, b, c, scratch.library));
    finish(i, j, shape, c);
  }
}

// A tile's way from the product to C.
void Multiplication::finish(std::int64_t i, std::int64_t j, const BlockProduct& shape,
                            const float* tile) {
  FinishedRows work{.tile = tile,
                    .tile_stride = shape.c_stride,
                    .to = p_.c.at(i, j),
                    .to_dtype = p_.c.dtype,
                    .to_stride = p_.c.stride};
  if (p_.biased && last_chunk()) {
    work.bias = p_.bias + j * size_of(p_.bias_dtype);
    work.bias_dtype = p_.bias_dtype;
  }
  if (!method_.staged_c) {
    if (work.bias != nullptr) finish_rows(work, shape.m, shape.n);
    return;
  }
  if (method_.sums_apart) {
    auto* sums =
        reinterpret_cast<float*>(workspace_ + method_.staged_bytes) + (i - row_begin_) * p_.n + j;
    if (!first_chunk()) work.addend = sums;
    work.addend_stride = p_.n;
    if (!last_chunk()) {
      work.to = reinterpret_cast<std::byte*>(sums);
      work.to_dtype = DType::kF32;
      work.to_stride = p_.n;
    }
  } else if (p_.accumulate || !first_chunk()) {
    work.addend = reinterpret_cast<const float*>(work.to);
    work.addend_stride = p_.c.stride;
  }
  finish_rows(work, shape.m, shape.n);
}

}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const MatrixProduct& product) {
  if (product.m == 0 || product.n == 0) return 0;
  return Method(device, product).total_bytes;
}

void multiply(const CpuDevice& device, const MatrixProduct& product, std::byte* workspace) {
  if (product.m == 0 || product.n == 0) return;
  PHALANX_CHECK(product.k > 0, "a matrix product over nothing");
  PHALANX_CHECK(!product.accumulate || product.c.dtype == DType::kF32,
                "products accumulate into f32, not {}", name_of(product.c.dtype));
  const Method method(device, product);
  Multiplication(method, *device.cache, workspace).run(device.threads);
}

}  // namespace phalanx::cpu
