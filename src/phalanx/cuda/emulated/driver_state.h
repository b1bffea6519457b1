#pragma once
// What the emulated driver keeps: devices, queues with their entries, marks, graphs and pinned
// memory. One lock for all; whoever waits runs entries, of any queue.

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cuda/driver.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/enqueue.h"
#include "phalanx/cuda/emulated/environment.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/cuda/emulated/sanitizer.h"

namespace phalanx::cuda::emulated {

inline constexpr std::int64_t kPage = 4096;
inline constexpr std::int64_t kDeviceBytes = std::int64_t{1} << 30;

using Work = std::shared_ptr<QueueWork>;

template <typename Function>
class WorkOf final : public QueueWork {
 public:
  explicit WorkOf(Function function) : function_(std::move(function)) {}
  void run() override { function_(); }

 private:
  Function function_;
};
template <typename Function>
Work work_of(Function function) {
  return std::make_shared<WorkOf<Function>>(std::move(function));
}

// A record of a mark: what comes after it is ordered behind what came before.
struct Point {
  bool passed = false;
  std::int64_t time = 0;
  char sync = 0;
};

struct MarkState {
  int device = 0;
  bool timed = false;
  std::shared_ptr<Point> last;  // null if never recorded
};

// The host makes it, the queue lets it go: neither touches it in the other's time.
struct Entry {
  std::string name;
  Work work;                     // of a copy, a set, a launch
  std::shared_ptr<Point> waits;  // may run when it has passed
  std::shared_ptr<Point> records;
  char sync = 0;  // ordered behind who enqueued it
};

struct GraphState {
  std::vector<std::pair<std::string, Work>> nodes;
};

struct QueueState {
  int device = 0;
  int number = 0;
  std::deque<std::unique_ptr<Entry>> entries;
  std::unique_ptr<GraphState> capture;
  void* tsan = nullptr;
  char done = 0;
  char failed = 0;
};

struct DeviceState {
  std::byte* base = nullptr;
  std::int64_t used = 0;
  std::map<std::byte*, std::int64_t> blocks;
  std::string broken;  // a kernel's fault: every later call fails with it
};

struct Range {
  const std::byte* begin;
  std::int64_t bytes;

  bool holds(const std::byte* at, std::int64_t n) const {
    return at >= begin && at + n <= begin + bytes;
  }
};

class Driver {
 public:
  static Driver& get() {
    static Driver driver;
    return driver;
  }

  std::recursive_mutex mutex;
  QueueOrder order = QueueOrder::kFirst;
  std::uint64_t draws = 1;
  const int version = driver_version();
  // That a program sees; as a driver, this one reads the environment once.
  int devices = version < kNeededDriver ? 0 : visible_devices(devices_there());
  int countdown = -1;
  std::int64_t ran = 0;
  std::map<int, DeviceState> device_states;
  std::vector<std::unique_ptr<QueueState>> queues;  // by number; null if given back
  std::vector<std::unique_ptr<MarkState>> marks;
  std::vector<std::unique_ptr<GraphState>> graphs;
  std::vector<Range> pinned;
  std::map<std::byte*, std::int64_t> own_pinned;

  DeviceState& device(int number) {
    if (number < 0 || number >= devices) {
      throw UnavailableError("there is no CUDA device {}: the emulated driver shows {}", number,
                             devices);
    }
    DeviceState& state = device_states[number];
    if (!state.broken.empty()) throw InternalError("{}", state.broken);
    if (state.base == nullptr) {
      void* memory = mmap(nullptr, static_cast<std::size_t>(kDeviceBytes), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw SystemError("no address space for an emulated device");
      state.base = static_cast<std::byte*>(memory);
    }
    return state;
  }

  QueueState& queue(Queue handle) {
    PHALANX_CHECK(handle.id > 0 && handle.id <= queues.size() && queues[handle.id - 1],
                  "queue {} is not there", handle.id);
    QueueState& state = *queues[handle.id - 1];
    device(state.device);
    return state;
  }
  MarkState& mark(Mark handle) {
    PHALANX_CHECK(handle.id > 0 && handle.id <= marks.size() && marks[handle.id - 1],
                  "mark {} is not there", handle.id);
    MarkState& state = *marks[handle.id - 1];
    device(state.device);
    return state;
  }

  bool is_device_memory(const void* at) const {
    return std::any_of(device_states.begin(), device_states.end(), [at](const auto& pair) {
      const std::byte* base = pair.second.base;
      return base != nullptr && at >= base && at < base + kDeviceBytes;
    });
  }

  // A copy's end: memory of a device, within one allocation, or pinned memory.
  void check_range(const char* what, const void* at, std::int64_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(at);
    if (bytes == 0) return;
    if (is_device_memory(at)) {
      for (const auto& [number, state] : device_states) {
        for (const auto& [block, size] : state.blocks) {
          if (Range{block, size}.holds(begin, bytes)) return;
        }
      }
      throw InternalError("{} of {} bytes reaches beyond an allocation of the device", what, bytes);
    }
    const bool is_pinned = std::any_of(pinned.begin(), pinned.end(), [&](const Range& range) {
      return range.holds(begin, bytes);
    });
    PHALANX_CHECK(is_pinned, "{} of {} bytes uses memory of the host that is not pinned", what,
                  bytes);
  }

  void add(QueueState& queue, std::string name, Work work) {
    if (queue.capture) {
      queue.capture->nodes.emplace_back(std::move(name), std::move(work));
      return;
    }
    auto entry = std::make_unique<Entry>();
    entry->name = std::move(name);
    entry->work = std::move(work);
    push(queue, std::move(entry));
  }

  void push(QueueState& queue, std::unique_ptr<Entry> entry) {
    tell_release(&entry->sync);
    queue.entries.push_back(std::move(entry));
  }

  void refuse_capture(const QueueState& queue, const char* what) const {
    PHALANX_CHECK(!queue.capture, "{} while queue {} is captured", what, queue.number);
  }
  void refuse_capture_on(int device, const char* what) const {
    for (const auto& queue : queues) {
      if (queue && queue->device == device) refuse_capture(*queue, what);
    }
  }

  // Runs entries until `satisfied`; an error if none can run before.
  template <typename Satisfied>
  void drive(const Satisfied& satisfied) {
    if (satisfied()) return;
    const Opened opened(*this);
    while (!satisfied()) {
      if (!step()) throw InternalError("nothing can run: {}", heads());
    }
  }

  // Runs one entry that may run.
  bool step() {
    std::vector<QueueState*> runnable;
    for (const auto& queue : queues) {
      if (!queue || queue->entries.empty()) continue;
      const auto& waits = queue->entries.front()->waits;
      if (!waits || waits->passed) runnable.push_back(queue.get());
    }
    if (runnable.empty()) return false;
    std::size_t choice = 0;
    if (order == QueueOrder::kLast) choice = runnable.size() - 1;
    if (order == QueueOrder::kAny) choice = draw() % runnable.size();
    run_head(*runnable[choice]);
    return true;
  }

  std::uint64_t draw() {
    draws = draws * 6364136223846793005U + 1442695040888963407U;
    return draws >> 33;
  }

  // Memory of the devices is open while this lives.
  class Opened {
   public:
    explicit Opened(Driver& driver) : driver_(driver) {
      if (driver_.opened_++ == 0) driver_.protect(PROT_READ | PROT_WRITE);
    }
    ~Opened() {
      if (--driver_.opened_ == 0) driver_.protect(PROT_NONE);
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    Driver& driver_;
  };

 private:
  void protect(int rights) {
    for (auto& [number, state] : device_states) {
      for (const auto& [block, bytes] : state.blocks) {
        mprotect(block, static_cast<std::size_t>(round_up(bytes, kPage)), rights);
      }
    }
  }

  void run_head(QueueState& queue) {
    Entry* entry = queue.entries.front().release();
    queue.entries.pop_front();
    ++ran;
    std::exception_ptr error;
#if PHALANX_TSAN
    void* self = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(queue.tsan, __tsan_switch_to_fiber_no_sync);
#endif
    tell_acquire(&entry->sync);
    if (entry->waits) tell_acquire(&entry->waits->sync);
    try {
      if (entry->work) entry->work->run();
    } catch (...) {
      error = std::current_exception();
      tell_release(&queue.failed);
    }
    if (entry->records) {
      entry->records->passed = true;
      entry->records->time = ran;
      tell_release(&entry->records->sync);
    }
    delete entry;
    tell_release(&queue.done);
#if PHALANX_TSAN
    __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
#endif
    if (!error) return;
    tell_acquire(&queue.failed);
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& fault) {
      device_states[queue.device].broken = fault.what();
      throw;
    }
  }

  std::string heads() const {
    std::string text;
    for (const auto& queue : queues) {
      if (!queue || queue->entries.empty()) continue;
      text += fmt::format("{}queue {} of device {} is at {}", text.empty() ? "" : ", ",
                          queue->number, queue->device, queue->entries.front()->name);
    }
    return text.empty() ? "the queues are empty" : text;
  }

  int opened_ = 0;
};

using Lock = std::lock_guard<std::recursive_mutex>;

inline void check_size(std::int64_t bytes) { PHALANX_CHECK(bytes >= 0, "{} bytes", bytes); }

}  // namespace phalanx::cuda::emulated
