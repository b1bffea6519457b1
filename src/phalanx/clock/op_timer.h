#pragma once
// Times of single ops where runs compute: on this processor, or on a CUDA device.

#include <cstdint>
#include <memory>
#include <string>

#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx {

struct TimedOp {
  OpCost cost;
  double seconds = 0.0;          // a call, the median of its times
  double enqueue_seconds = 0.0;  // in which the host enqueues a call
  bool is_disturbed = false;     // no repetition was without others on the core

  double bytes() const { return static_cast<double>(cost.bytes_read + cost.bytes_written); }
};

// What there is to know of the place without measuring it.
struct TimedPlace {
  std::string title;
  std::string products;  // the family of products, for the source of numbers
  int cores = 1;
  std::int64_t memory_bytes = 0;
  std::int64_t cache_bytes = 0;  // 0: not known
};

class OpTimer {
 public:
  virtual ~OpTimer() = default;
  virtual const TimedPlace& place() const = 0;
  // Repeats for the seconds, and at least `fewest` times, after one that does not count.
  virtual TimedOp time(const ops::Case& row, double seconds, int fewest) = 0;
};

// Ranks of a machine that compute at the same time, each with so many threads: one is timed.
struct ProcessorRanks {
  int count = 1;
  int threads = 1;
};
// Of each rank.
struct ProcessorMemory {
  std::int64_t operand_bytes = 0;  // that a case may have
  std::int64_t rotated_bytes = 0;  // of copies of its operands between which calls take turns
};
std::unique_ptr<OpTimer> processor_timer(const ProcessorRanks& ranks,
                                         const cpu::ProductChoice& products, DType storage,
                                         const ProcessorMemory& memory);
// UnavailableError without such a device.
std::unique_ptr<OpTimer> device_timer(const CudaPlace& place, DType storage);

}  // namespace phalanx
