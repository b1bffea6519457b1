#pragma once
// What a check of a device finds, and who is told. The shared objects of CUDA check the language of
// kernels, kernels, products and memory (ops/cuda/check); `phalanx selftest` (selftest/selftest.h)
// adds what needs the whole program, shows all of it and keeps it.

#include <cstdint>
#include <string>

namespace phalanx {

struct CheckResult {
  std::string name;
  bool passed = false;
  // The largest error, relative to the largest number there is; without a tolerance bits are
  // compared, or things are counted.
  double error = 0.0;
  double tolerance = 0.0;
  double seconds = 0.0;
  std::string more = {};  // what was found instead, or a remark
};

struct RateResult {
  std::string name;
  double value = 0.0;
  std::string unit;            // "GB/s", "TFLOP/s"
  double share_of_peak = 0.0;  // 0: the peak is not known
  std::string choice = {};     // of a product: which algorithm the library chose
};

// Is told of one thing after the other.
class CheckSink {
 public:
  virtual ~CheckSink() = default;
  // What comes next, and the seconds that it may take: a device can hang.
  virtual void begin(const std::string& name, double seconds) = 0;
  virtual void add(const CheckResult& result) = 0;
  virtual void add(const RateResult& result) = 0;
};

enum class DevicePart : std::uint8_t {
  kMemory,     // written and read, every word
  kCopies,     // between the host and the device: rates
  kDigests,    // the language's members and exact kernels against the emulated machine's bytes
  kFunctions,  // approximated functions, activations, losses, attention against double
  kProducts,   // of all types against double; of GPT-2 124M and of a 7B model: choice, rate, error
  kRates,      // of kernels, attention and large products
};

struct DeviceCheckOptions {
  int device = 0;
  // Of kMemory, kCopies and kRates: how much is written and read, copied, or operands of a kernel.
  std::int64_t bytes = 0;
  // Of kProducts: sides of the models' products are divided by it.
  std::int64_t product_divisor = 1;
  // Of kDigests, instead of those that the kernels were built with (ops/cuda/check/expected.txt).
  std::string digests = {};
};

}  // namespace phalanx
