#pragma once
// oneDNN's matrix products and reorders for blocks of a product, created at first use and kept by
// shape. Every primitive runs on the thread that calls it: linear.cc cuts the work, so bits do not
// depend on how many threads a library would have used.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "phalanx/base/dtype.h"

namespace phalanx::cpu {

// C[m, n] = A[m, k] B[k, n], or += with `accumulate`; A and B hold `dtype` (f32 or bf16), C f32.
// Strides in elements.
struct BlockProduct {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::kF32;
  std::int64_t a_stride = 0;  // between rows of A
  // B: both strides, or zeros for a layout of oneDNN's own (see pack).
  std::int64_t b_row_stride = 0, b_column_stride = 0;
  std::int64_t c_stride = 0;
  bool accumulate = false;

  friend bool operator==(const BlockProduct&, const BlockProduct&) = default;
};

// to[i, j] = from[i, j]: a transposing copy of f32 or bf16.
struct BlockCopy {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::kF32;
  std::int64_t from_row_stride = 0, from_column_stride = 0;
  std::int64_t to_row_stride = 0;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

class ProductCache {
 public:
  // A primitive ready to run; it lives as long as the cache.
  class Kernel {
   public:
    virtual ~Kernel() = default;
    // Operands as named at the function that made the kernel. False when oneDNN fails; never
    // throws.
    virtual bool run(const void* a, const void* b, void* c, void* scratch) const noexcept = 0;
  };

  ProductCache();
  ~ProductCache();
  ProductCache(const ProductCache&) = delete;
  ProductCache& operator=(const ProductCache&) = delete;

  // Bytes of the scratch memory that `product` needs, and of B in oneDNN's own layout.
  std::int64_t scratch_bytes(const BlockProduct& shape);
  std::int64_t packed_bytes(const BlockProduct& shape);

  // run(a, b, c, scratch).
  const Kernel& product(const BlockProduct& shape);
  // run(b, nullptr, packed, nullptr): B from these strides into oneDNN's own layout for the product
  // `shape`.
  const Kernel& pack(const BlockProduct& shape, std::int64_t row_stride,
                     std::int64_t column_stride);
  // run(from, nullptr, to, nullptr).
  const Kernel& copy(const BlockCopy& shape);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// While it lives, oneDNN makes and runs primitives on the calling thread alone (in a parallel
// region it always does).
class OneThreadedLibrary {
 public:
  OneThreadedLibrary();
  OneThreadedLibrary(const OneThreadedLibrary&) = delete;
  OneThreadedLibrary& operator=(const OneThreadedLibrary&) = delete;
  ~OneThreadedLibrary();

 private:
  int before_;
};

}  // namespace phalanx::cpu
