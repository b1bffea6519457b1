// lt.h in double, on the emulated driver's queues.

#include "phalanx/cuda/lt.h"

#include <cstring>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/cuda/emulated/enqueue.h"
#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {
namespace {

constexpr std::uint64_t kMagic = 0x70686c74;  // begins every algorithm

double load(const void* at, DType type, std::int64_t i) {
  switch (type) {
    case DType::kBF16:
      return to_float(static_cast<const bf16*>(at)[i]);
    case DType::kF16:
      return to_float(static_cast<const fp16*>(at)[i]);
    default:
      return static_cast<const float*>(at)[i];
  }
}

void store(void* at, DType type, std::int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  switch (type) {
    case DType::kBF16:
      static_cast<bf16*>(at)[i] = bf16_of(rounded);
      return;
    case DType::kF16:
      static_cast<fp16*>(at)[i] = fp16_of(rounded);
      return;
    default:
      static_cast<float*>(at)[i] = rounded;
  }
}

// What the library's documentation does not list, or what is slow or wrong in it.
void check(const LtProduct& p) {
  PHALANX_CHECK(p.m > 0 && p.n > 0 && p.k > 0, "a product of {} x {} x {}", p.m, p.n, p.k);
  const bool known =
      p.type_ab == DType::kF32 || p.type_ab == DType::kBF16 || p.type_ab == DType::kF16;
  PHALANX_CHECK(known, "a product of {}", name_of(p.type_ab));
  PHALANX_CHECK(p.type_d == p.type_ab || p.type_d == DType::kF32, "a product of {} to {}",
                name_of(p.type_ab), name_of(p.type_d));
  PHALANX_CHECK(
      p.lda >= (p.transpose_a ? p.k : p.m) && p.ldb >= (p.transpose_b ? p.n : p.k) && p.ldd >= p.m,
      "leading dimensions {}, {}, {} of a product of {} x {} x {}", p.lda, p.ldb, p.ldd, p.m, p.n,
      p.k);
  PHALANX_CHECK(!p.tf32 || p.type_ab == DType::kF32, "tf32 is of f32 operands");
  PHALANX_CHECK(!p.bias || !p.accumulate, "a bias is added to a fresh product");
}

void check_address(const char* what, const void* at) {
  PHALANX_CHECK(at != nullptr && reinterpret_cast<std::uintptr_t>(at) % 16 == 0,
                "{} of a product is not a multiple of 16", what);
}

void compute(const LtProduct& p, const LtOperands& o) {
  for (std::int64_t column = 0; column < p.n; ++column) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      const std::int64_t at = column * p.ldd + row;
      double sum = p.accumulate ? load(o.d, p.type_d, at) : 0.0;
      for (std::int64_t i = 0; i < p.k; ++i) {
        sum += load(o.a, p.type_ab, p.transpose_a ? row * p.lda + i : i * p.lda + row) *
               load(o.b, p.type_ab, p.transpose_b ? i * p.ldb + column : column * p.ldb + i);
      }
      if (p.bias) sum += load(o.bias, p.type_d, row);
      store(o.d, p.type_d, at, sum);
    }
  }
}

class Multiplication final : public QueueWork {
 public:
  Multiplication(const LtProduct& product, const LtOperands& operands, std::byte* workspace,
                 std::int64_t workspace_bytes)
      : product_(product),
        operands_(operands),
        workspace_(workspace),
        workspace_bytes_(workspace_bytes) {}

  void run() override {
    // It may hold anything afterwards.
    std::memset(workspace_, 0xff, static_cast<std::size_t>(workspace_bytes_));
    compute(product_, operands_);
  }

 private:
  LtProduct product_;
  LtOperands operands_;
  std::byte* workspace_;
  std::int64_t workspace_bytes_;
};

}  // namespace

class Lt::Body {
 public:
  // A device that is there.
  explicit Body(int device) { facts(device); }
};

Lt::Lt(int device) : body_(std::make_unique<Body>(device)) {}
Lt::~Lt() = default;

std::int64_t Lt::version() const { return 1; }
std::int64_t Lt::workspace_bytes() const { return std::int64_t{1} << 16; }

LtAlgorithm Lt::choose(const LtProduct& product) {
  check(product);
  LtAlgorithm algorithm;
  algorithm.words[0] = kMagic;
  algorithm.words[1] = static_cast<std::uint64_t>(product.m);
  algorithm.words[2] = static_cast<std::uint64_t>(product.n);
  algorithm.words[3] = static_cast<std::uint64_t>(product.k);
  return algorithm;
}

void Lt::multiply(Queue queue, const LtProduct& product, const LtAlgorithm& algorithm,
                  const LtOperands& operands, std::byte* workspace) {
  check(product);
  PHALANX_CHECK(algorithm == choose(product), "an algorithm that was chosen for another product");
  check_address("A", operands.a);
  check_address("B", operands.b);
  check_address("D", operands.d);
  if (product.bias) check_address("the bias", operands.bias);
  check_address("the workspace", workspace);
  enqueue_work(queue, "a product",
               std::make_shared<Multiplication>(product, operands, workspace, workspace_bytes()));
}

}  // namespace phalanx::cuda
