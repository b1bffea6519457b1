#pragma once
// What the CPU kernels need to know of the machine and of the run.

#include <memory>
#include <string>

namespace phalanx::cpu {

// How 16-bit operands of matrix products are multiplied: converted to fp32 (in counted workspace),
// or as bf16 with fp32 accumulation. Part of a run's identity: another choice means other bits.
enum class ProductPrecision { kFp32, kBf16 };

// oneDNN's primitives by shape; owned by the device, defined in linear.cc.
class ProductCache;

struct CpuDevice {
  int threads = 1;
  ProductPrecision products = ProductPrecision::kFp32;
  std::shared_ptr<ProductCache> cache;
};

// A device for `threads` OpenMP threads; its cache is empty.
CpuDevice make_device(int threads, ProductPrecision products);

}  // namespace phalanx::cpu
