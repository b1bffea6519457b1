#include "phalanx/clock/op_timer.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "phalanx/base/machine.h"
#include "phalanx/ops/cases/device_timer.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx {
namespace {

constexpr std::int64_t kWorkspaceBytes = std::int64_t{512} << 20;

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t last_cache_bytes() {
  const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max(0L, bytes);
}

// Repetitions of an op. Those in which the calling thread was on its core count, if there are any.
struct Times {
  static constexpr double kOnCore = 0.97;

  int count = 0;
  std::vector<double> undisturbed = {};
  double best = std::numeric_limits<double>::infinity();

  template <typename Call>
  void take(const Call& call) {
    const double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const double wall = seconds_of(CLOCK_MONOTONIC);
    call();
    const double took = seconds_of(CLOCK_MONOTONIC) - wall;
    const double on_core = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (on_core >= kOnCore * took) undisturbed.push_back(took);
    best = std::min(best, took);
    ++count;
  }
  // The lower quartile: neighbours on a machine make times longer, never shorter.
  double seconds() {
    if (undisturbed.empty()) return best;
    const auto quartile = undisturbed.begin() + static_cast<std::ptrdiff_t>(undisturbed.size() / 4);
    std::ranges::nth_element(undisturbed, quartile);
    return *quartile;
  }
};

class ProcessorTimer final : public OpTimer {
 public:
  ProcessorTimer(int threads, const cpu::ProductChoice& products, DType storage,
                 std::int64_t operand_bytes)
      : storage_(storage),
        operand_bytes_(operand_bytes),
        backend_(make_cpu_backend(threads, products.products)) {
    place_.title = processor_name();
    if (place_.title.empty()) place_.title = "a processor";
    place_.products = products.name();
    place_.cores = threads;
    place_.memory_bytes = physical_memory();
    place_.cache_bytes = last_cache_bytes();
  }

  const TimedPlace& place() const override { return place_; }

  TimedOp time(const ops::Case& row, double seconds, int fewest) override {
    Arena operands("operands", operand_bytes_);
    Arena workspace("workspace", kWorkspaceBytes);
    Context context{.backend = *backend_, .workspace = workspace};
    ops::Operands builder(operands, storage_, context);
    const ops::Job job = row.build(builder);
    job.run(context);
    Times times;
    const double begin = seconds_of(CLOCK_MONOTONIC);
    while (times.count < fewest || seconds_of(CLOCK_MONOTONIC) - begin < seconds) {
      times.take([&] { job.run(context); });
    }
    const double taken = times.seconds();
    return {.cost = job.cost,
            .seconds = taken,
            .enqueue_seconds = taken,
            .is_disturbed = times.undisturbed.empty()};
  }

 private:
  DType storage_;
  std::int64_t operand_bytes_;
  std::unique_ptr<Backend> backend_;
  TimedPlace place_;
};

class CudaTimer final : public OpTimer {
 public:
  CudaTimer(const CudaPlace& place, DType storage) : timer_(place, storage, usable_cores().count) {
    const cuda::Facts& facts = timer_.facts();
    place_ = {.title = facts.name,
              .products = cuda_interface(place.machine).products(place.device),
              .cores = facts.processors,
              .memory_bytes = facts.memory_bytes,
              .cache_bytes = facts.second_level_cache_bytes};
  }

  const TimedPlace& place() const override { return place_; }

  TimedOp time(const ops::Case& row, double seconds, int fewest) override {
    const ops::DeviceTimer::Times times =
        timer_.time(row, seconds, static_cast<std::size_t>(fewest));
    return {.cost = times.cost,
            .seconds = times.seconds[times.seconds.size() / 4],
            .enqueue_seconds = times.enqueue_seconds};
  }

 private:
  ops::DeviceTimer timer_;
  TimedPlace place_;
};

}  // namespace

std::unique_ptr<OpTimer> processor_timer(int threads, const cpu::ProductChoice& products,
                                         DType storage, std::int64_t operand_bytes) {
  return std::make_unique<ProcessorTimer>(threads, products, storage, operand_bytes);
}

std::unique_ptr<OpTimer> device_timer(const CudaPlace& place, DType storage) {
  return std::make_unique<CudaTimer>(place, storage);
}

}  // namespace phalanx
