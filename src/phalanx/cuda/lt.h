#pragma once
// Matrix products as cuBLASLt has them: D = op(A) op(B) + beta D (+ bias), column-major.
// device/lt_cublas.cc answers with the library, emulated/lt.cc in double, refusing what the library
// does not promise. Row-major X[m, k] is column-major k x m with leading dimension k, so the
// products of layers are
//   Y = X W^T      m = n_out, n = rows, A = W transposed, B = X
//   dX = dY W      m = k,     n = rows, A = W,            B = dY
//   dW += dY^T X   m = k,     n = n_out, A = X,           B = dY transposed

#include <array>
#include <cstdint>
#include <memory>

#include "phalanx/base/dtype.h"
#include "phalanx/cuda/driver.h"

namespace phalanx::cuda {

struct LtProduct {
  std::int64_t m = 0;  // rows of D
  std::int64_t n = 0;  // columns of D
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  DType type_ab = DType::kF32;  // f32, bf16, f16
  DType type_d = DType::kF32;   // as the operands, or f32
  // Elements between columns; at least the rows of the matrix as it is stored.
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldd = 0;
  bool accumulate = false;  // beta is 1, else 0 and D is not read
  bool bias = false;        // of type_d, one a row of D, added before the one rounding
  bool tf32 = false;        // f32 operands may be rounded to 10 bits of mantissa

  bool operator==(const LtProduct&) const = default;
};

struct LtOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;
};

// What the library chose for a product: kept beside a checkpoint, since another choice has other
// bits. It is valid for one version of the library and one kind of device.
struct LtAlgorithm {
  std::array<std::uint64_t, 8> words{};

  bool operator==(const LtAlgorithm&) const = default;
};

// The library on one device, for one queue at a time.
class Lt {
 public:
  explicit Lt(int device);
  ~Lt();
  Lt(const Lt&) = delete;
  Lt& operator=(const Lt&) = delete;

  // "130100"
  std::int64_t version() const;
  // Scratch memory for every product on this device, aligned to 256.
  std::int64_t workspace_bytes() const;
  // The library's first answer among algorithms without sums in an order of chance. SystemError if
  // it has none.
  LtAlgorithm choose(const LtProduct& product);
  // m, n and k are positive; addresses are multiples of 16.
  void multiply(Queue queue, const LtProduct& product, const LtAlgorithm& algorithm,
                const LtOperands& operands, std::byte* workspace);

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace phalanx::cuda
