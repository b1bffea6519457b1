// The three products of a linear layer, one engine. oneDNN multiplies tiles on single threads; what lies around them
// is ours: a panel of B is copied dense into the cache of the thread that uses it (plain operands with leading
// dimensions of 3072 or 50304 run at half speed), 16-bit operands are widened on the way, and A is staged where it is
// transposed. docs/performance.md has the measurements.

#include "phalanx/ops/linear.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/product_blocks.h"
#include "phalanx/ops/cpu/product_cache.h"
#include "phalanx/ops/cpu/product_rows.h"

namespace phalanx::cpu {
namespace {

// element(i, j) = data[i * row_stride + j * column_stride]; one of the strides is 1.
struct Matrix {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t row_stride = 0, column_stride = 1;

  bool transposed() const { return column_stride != 1; }
  Matrix at(std::int64_t i, std::int64_t j) const {
    Matrix view = *this;
    if (data != nullptr) view.data += (i * row_stride + j * column_stride) * size_of(dtype);
    return view;
  }
};

Matrix matrix(const Tensor& tensor) {
  PHALANX_CHECK(tensor.shape.rank() == 2 && (tensor.strides[1] == 1 || tensor.shape[1] == 1),
                "a product's operand must be a matrix of dense rows, not {}",
                tensor.shape.to_string());
  const std::int64_t stride = tensor.shape[0] == 1 ? tensor.shape[1] : tensor.strides[0];
  return {tensor.data(), tensor.dtype, stride, 1};
}
Matrix transpose(Matrix m) {
  // A single column is a dense row; it counts as transposed all the same.
  std::swap(m.row_stride, m.column_stride);
  return m;
}

// C[m, n] = A[m, k] B[k, n] + bias[n], or C += A B.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::kF32;
  bool has_bias = false;
  bool accumulate = false;
};

Product product_of(const ops::LinearForward& op) {
  Product product{.m = op.y.shape[0], .n = op.y.shape[1], .k = op.x.shape[1], .a = matrix(op.x),
                  .b = transpose(matrix(op.weight)), .c = matrix(op.y)};
  if (op.bias) {
    PHALANX_CHECK(op.bias.contiguous(), "the bias must be dense");
    product.has_bias = true;
    product.bias = op.bias.data();
    product.bias_dtype = op.bias.dtype;
  }
  return product;
}
Product product_of(const ops::LinearInputGradient& op) {
  return {.m = op.dx.shape[0], .n = op.dx.shape[1], .k = op.dy.shape[1], .a = matrix(op.dy),
          .b = matrix(op.weight), .c = matrix(op.dx)};
}
Product product_of(const ops::LinearWeightGradient& op) {
  return {.m = op.dweight.shape[0], .n = op.dweight.shape[1], .k = op.x.shape[0],
          .a = transpose(matrix(op.dy)), .b = matrix(op.x), .c = matrix(op.dweight),
          .accumulate = op.accumulate};
}

// The lengths of the pieces of [0, total) in steps, each once.
std::set<std::int64_t> extents(std::int64_t total, std::int64_t step) {
  std::set<std::int64_t> result = {std::min(total, step)};
  if (total % step != 0) result.insert(total % step);
  return result;
}

// Below so many rows the weights are read where they lie: a copy would cost more than the product.
constexpr std::int64_t kRowsWorthPanels = 48;
constexpr std::int64_t kStageRows = 64;

class Multiplication {
 public:
  Multiplication(const CpuDevice& device, const Product& product);

  std::int64_t workspace_bytes() const { return total_bytes_; }
  void run(std::byte* workspace);

 private:
  // One thread's part of the workspace.
  struct Scratch {
    std::byte* library;
    std::byte* panel;
    float* widened;
    float* tile;
  };

  BlockProduct tile_product(std::int64_t m, std::int64_t n, std::int64_t k, bool first) const;
  std::set<std::int64_t> tile_heights() const;
  void lay_out();
  void prepare();
  Scratch scratch_of(int thread) const;
  std::byte* stage(const Matrix& from, std::int64_t rows, std::int64_t columns, std::byte* to,
                   std::int64_t to_stride, const Scratch& scratch);
  void stage_a(std::int64_t piece, const Scratch& scratch);
  const std::byte* ready_panel(std::int64_t j, std::int64_t columns, const Scratch& scratch);
  void multiply_task(std::int64_t task, const Scratch& scratch);
  void multiply_tile(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns,
                     const std::byte* panel, const Scratch& scratch);
  void finish_tile(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns,
                   const float* tile);

  ProductCache& cache_;
  const int threads_;
  const Product p_;
  const bool native_;      // bf16 products
  const DType dtype_;      // of the products' operands
  const bool panels_;      // B is copied; else read where it lies or widened as it lies
  const bool widened_b_;   // B read as it lies, but widened
  const bool staged_a_;
  const bool staged_c_;    // tiles are rounded or added on their way to C
  const ProductBlocks blocks_;
  const bool sums_apart_;  // sums over chunks of k are kept in fp32 beside C

  std::int64_t a_stride_ = 0;
  std::int64_t staged_bytes_ = 0, sums_bytes_ = 0;
  std::int64_t library_bytes_ = 0, panel_bytes_ = 0, widened_bytes_ = 0, tile_bytes_ = 0;
  std::int64_t thread_bytes_ = 0, total_bytes_ = 0;

  // Where the loops stand: block of rows and chunk of k.
  std::byte* workspace_ = nullptr;
  std::int64_t row_ = 0, rows_ = 0, depth_ = 0, depths_ = 0;
  std::atomic<bool> failed_ = false;
};

bool native_bf16(const CpuDevice& device, const Product& p) {
  return device.products == ProductPrecision::kBf16 && p.a.dtype == DType::kBF16 &&
         p.b.dtype == DType::kBF16;
}

Multiplication::Multiplication(const CpuDevice& device, const Product& product)
    : cache_(*device.cache),
      threads_(device.threads),
      p_(product),
      native_(native_bf16(device, product)),
      dtype_(native_ ? DType::kBF16 : DType::kF32),
      panels_(native_ || product.m >= kRowsWorthPanels),
      widened_b_(!panels_ && product.b.dtype != DType::kF32),
      staged_a_(product.a.transposed() || product.a.dtype != dtype_ ||
                (native_ && product.a.row_stride != product.k)),
      staged_c_(native_ || product.c.dtype != DType::kF32),
      blocks_(choose_blocks(product.m, product.n, product.k, threads_, staged_a_, staged_c_)),
      sums_apart_(product.c.dtype != DType::kF32 && blocks_.k_chunk < product.k) {
  lay_out();
}

// oneDNN's fast bf16 products want dense operands and a layout of their own for B.
BlockProduct Multiplication::tile_product(std::int64_t m, std::int64_t n, std::int64_t k,
                                          bool first) const {
  BlockProduct shape{.m = m, .n = n, .k = k, .dtype = dtype_};
  shape.a_stride = staged_a_ ? (native_ ? k : a_stride_) : p_.a.row_stride;
  if (panels_ && !native_) {
    shape.b_row_stride = n;
    shape.b_column_stride = 1;
  } else if (!panels_) {
    shape.b_row_stride = p_.b.transposed() ? 1 : (widened_b_ ? n : p_.b.row_stride);
    shape.b_column_stride = p_.b.transposed() ? (widened_b_ ? k : p_.b.column_stride) : 1;
  }
  shape.c_stride = staged_c_ ? n : p_.c.row_stride;
  shape.accumulate = !staged_c_ && (p_.accumulate || !first);
  return shape;
}

std::set<std::int64_t> Multiplication::tile_heights() const {
  std::set<std::int64_t> heights;
  for (const auto block : extents(p_.m, blocks_.m_block)) {
    for (const auto part : extents(block, blocks_.m_part)) {
      heights.merge(extents(part, blocks_.m_tile));
    }
  }
  return heights;
}

void Multiplication::lay_out() {
  const auto align = [](std::int64_t bytes) { return round_up(bytes, kArenaAlignment); };
  const std::int64_t k = blocks_.k_chunk;
  // Rows 4 KiB apart would share few cache sets.
  a_stride_ = staged_a_ && !native_ ? k + 16 : k;
  if (staged_a_) staged_bytes_ = align(blocks_.m_block * a_stride_ * size_of(dtype_));
  if (sums_apart_) sums_bytes_ = align(blocks_.m_block * p_.n * size_of(DType::kF32));
  for (const auto depth : extents(p_.k, blocks_.k_chunk)) {
    for (const auto columns : extents(p_.n, blocks_.n_panel)) {
      for (const auto rows : tile_heights()) {
        for (const bool first : {true, false}) {
          const BlockProduct shape = tile_product(rows, columns, depth, first);
          library_bytes_ = std::max(library_bytes_, align(cache_.scratch_bytes(shape)));
          if (native_) panel_bytes_ = std::max(panel_bytes_, align(cache_.packed_bytes(shape)));
        }
      }
    }
  }
  if ((panels_ && !native_) || widened_b_) {
    panel_bytes_ = align(blocks_.n_panel * k * size_of(DType::kF32));
  }
  if (panels_ && p_.b.transposed() && p_.b.dtype != dtype_) widened_bytes_ = panel_bytes_;
  if (p_.a.transposed() && p_.a.dtype != dtype_) {
    widened_bytes_ = std::max(widened_bytes_, align(kStageRows * k * size_of(DType::kF32)));
  }
  if (staged_c_) tile_bytes_ = align(blocks_.m_tile * blocks_.n_panel * size_of(DType::kF32));
  thread_bytes_ = library_bytes_ + panel_bytes_ + widened_bytes_ + tile_bytes_;
  total_bytes_ = staged_bytes_ + sums_bytes_ + threads_ * thread_bytes_;
}

Multiplication::Scratch Multiplication::scratch_of(int thread) const {
  std::byte* at = workspace_ + staged_bytes_ + sums_bytes_ + thread * thread_bytes_;
  std::byte* panel = at + library_bytes_;
  std::byte* widened = panel + panel_bytes_;
  return {at, panel, reinterpret_cast<float*>(widened),
          reinterpret_cast<float*>(widened + widened_bytes_)};
}

BlockCopy copy_shape(const Matrix& from, std::int64_t rows, std::int64_t columns,
                     std::int64_t to_stride) {
  return {.rows = rows, .columns = columns, .dtype = from.dtype, .from_row_stride = from.row_stride,
          .from_column_stride = from.column_stride, .to_row_stride = to_stride};
}

// A transposed matrix after its rows in memory were widened to a dense block.
Matrix widened_transpose(float* block, std::int64_t stride) {
  return {reinterpret_cast<std::byte*>(block), DType::kF32, 1, stride};
}

}  // namespace
}  // namespace phalanx::cpu
