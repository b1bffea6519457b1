#pragma once
// Whether a device computes what it should, in parts: memory, copies, cases (every row of the case
// table against the reference), digests (kernels that have the emulated machine's bits), functions
// (those that a device approximates), products, rates, training. A processor has cases and
// training.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/ops/cuda_library.h"
#include "phalanx/selftest/training_checks.h"

namespace phalanx {

// The names of the parts, in their order; of a processor and of CUDA devices.
std::vector<std::string> selftest_parts(std::string_view device);

struct SelftestOptions {
  std::string device = "cuda";  // cpu, cuda, cuda-emulated
  bool quick = false;           // 1 GiB of memory, and of every case one type
  // Of selftest.txt and selftest.json; empty: selftest/ in the folder of states, if it can be
  // written (ops/checked_device.h).
  std::string output = {};
  std::vector<std::string> parts = {};  // empty: all
};

// Who asked for it.
struct SelftestCaller {
  std::function<void(std::string_view)> put;  // shows a text
  std::function<bool()> is_stopped = {};
  // What a check that exceeds its limit does to the process, after that was written; a device that
  // hangs lets no thread go.
  std::function<void()> hangs = {};
};

// What is tested; tests replace it.
struct SelftestSubject {
  const CudaInterface* cuda = nullptr;  // null: what --device says
  std::vector<StoredLosses> losses = stored_losses();
  std::string digests = {};  // empty: those that kernels were built with
};

struct SelftestEnd {
  int passed = 0;
  int failed = 0;
  bool is_stopped = false;  // before its end
};

// A CUDA device that passes all parts is noted, so that runs on it do not warn. ConfigError for
// parts that the device does not have; OutputError if --output cannot be written; UnavailableError
// without a driver or a device.
SelftestEnd selftest(const SelftestOptions& options, const SelftestCaller& caller,
                     const SelftestSubject& subject = {});

}  // namespace phalanx
