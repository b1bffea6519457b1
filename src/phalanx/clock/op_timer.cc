#include "phalanx/clock/op_timer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <exception>
#include <latch>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/base/machine.h"
#include "phalanx/base/memory_need.h"
#include "phalanx/base/threads.h"
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
  // The median: a step is a sum of many.
  double seconds() {
    if (undisturbed.empty()) return best;
    const auto median = undisturbed.begin() + static_cast<std::ptrdiff_t>(undisturbed.size() / 2);
    std::ranges::nth_element(undisturbed, median);
    return *median;
  }
};

// A job with what it needs, of one rank. Its operands are there several times, and calls take
// turns: those of a step are not in the caches of a core, either.
class RankJob {
 public:
  RankJob(const ops::Case& row, DType storage, Backend& backend, const ProcessorMemory& memory)
      : operands_("operands", memory.operand_bytes),
        workspace_("workspace", kWorkspaceBytes),
        context_{.backend = backend, .workspace = workspace_} {
    ops::Operands builder(operands_, storage, context_);
    do {
      jobs_.push_back(row.build(builder));
    } while (operands_.high_water() < memory.rotated_bytes && jobs_.size() < kMostCopies);
  }

  std::size_t copies() const { return jobs_.size(); }
  const OpCost& cost() const { return jobs_.front().cost; }
  void run() {
    jobs_[next_].run(context_);
    next_ = (next_ + 1) % jobs_.size();
  }

 private:
  static constexpr std::size_t kMostCopies = 64;

  Arena operands_;
  Arena workspace_;
  Context context_;
  std::vector<ops::Job> jobs_;
  std::size_t next_ = 0;
};

// The other ranks, which do the same until this is destroyed: they take their share of the memory's
// rate, of caches and of the power.
class Neighbours {
 public:
  Neighbours(const ops::Case& row, DType storage,
             std::span<const std::unique_ptr<Backend>> backends, const ProcessorMemory& memory)
      : are_ready_(static_cast<std::ptrdiff_t>(backends.size())) {
    for (const std::unique_ptr<Backend>& backend : backends) {
      threads_.push_back(start_thread([this, &row, storage, &backend, &memory] {
        std::optional<RankJob> job;
        try {
          job.emplace(row, storage, *backend, memory);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          fault_ = std::current_exception();
        }
        are_ready_.count_down();
        while (job && !is_over_) job->run();
      }));
    }
    are_ready_.wait();
    const std::lock_guard lock(mutex_);
    if (!fault_) return;
    is_over_ = true;
    std::rethrow_exception(fault_);
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours() { is_over_ = true; }

 private:
  std::latch are_ready_;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;
  std::exception_ptr fault_;           // that a rank has not what it needs
  std::vector<std::jthread> threads_;  // end before what they use
};

class ProcessorTimer final : public OpTimer {
 public:
  ProcessorTimer(const ProcessorRanks& ranks, const cpu::ProductChoice& products, DType storage,
                 const ProcessorMemory& memory)
      : storage_(storage), memory_(memory) {
    // At least: what calls take turns between.
    expect_memory(fmt::format("measuring {} ranks at the same time", ranks.count),
                  static_cast<double>(ranks.count) * static_cast<double>(memory.rotated_bytes),
                  "give fewer --ranks");
    for (int rank = 0; rank < ranks.count; ++rank) {
      backends_.push_back(make_cpu_backend(ranks.threads, products.products));
    }
    place_.title = processor_name();
    if (place_.title.empty()) place_.title = "a processor";
    place_.products = products.name();
    place_.cores = ranks.threads;
    place_.memory_bytes = physical_memory();
    place_.cache_bytes = last_cache_bytes() / ranks.count;
  }

  const TimedPlace& place() const override { return place_; }

  TimedOp time(const ops::Case& row, double seconds, int fewest) override {
    RankJob job(row, storage_, *backends_.front(), memory_);
    const Neighbours neighbours(row, storage_, std::span(backends_).subspan(1), memory_);
    for (std::size_t i = 0; i < job.copies(); ++i) job.run();
    Times times;
    const double begin = seconds_of(CLOCK_MONOTONIC);
    while (times.count < fewest || seconds_of(CLOCK_MONOTONIC) - begin < seconds) {
      times.take([&] { job.run(); });
    }
    const double taken = times.seconds();
    return {.cost = job.cost(),
            .seconds = taken,
            .enqueue_seconds = taken,
            .is_disturbed = times.undisturbed.empty()};
  }

 private:
  DType storage_;
  ProcessorMemory memory_;
  std::vector<std::unique_ptr<Backend>> backends_;  // by rank
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
            .seconds = times.seconds[times.seconds.size() / 2],
            .enqueue_seconds = times.enqueue_seconds};
  }

 private:
  ops::DeviceTimer timer_;
  TimedPlace place_;
};

}  // namespace

std::unique_ptr<OpTimer> processor_timer(const ProcessorRanks& ranks,
                                         const cpu::ProductChoice& products, DType storage,
                                         const ProcessorMemory& memory) {
  return std::make_unique<ProcessorTimer>(ranks, products, storage, memory);
}

std::unique_ptr<OpTimer> device_timer(const CudaPlace& place, DType storage) {
  return std::make_unique<CudaTimer>(place, storage);
}

}  // namespace phalanx
