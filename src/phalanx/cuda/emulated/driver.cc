// Calls append entries to queues; nothing runs until somebody waits, and then in an order that
// nobody can rely on. Memory of a device is open only while entries run.

#include "phalanx/cuda/driver.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/enqueue.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/cuda/emulated/sanitizer.h"
#include "phalanx/cuda/kernel.h"

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kDeviceBytes = std::int64_t{1} << 30;

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
  int devices = 1;
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
      throw UnavailableError("there is no CUDA device {}: the emulated driver has {}", number,
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

void check_size(std::int64_t bytes) { PHALANX_CHECK(bytes >= 0, "{} bytes", bytes); }

}  // namespace

int device_count() {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  return driver.devices;
}

Facts facts(int device) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  const DeviceState& state = driver.device(device);
  Facts facts;
  facts.name = "emulated";
  facts.major = 8;
  facts.processors = 4;
  facts.memory_bytes = kDeviceBytes;
  facts.free_bytes = kDeviceBytes - state.used;
  facts.shared_bytes_per_block = 99 << 10;
  facts.second_level_cache_bytes = 4 << 20;
  facts.driver_version = 13000;
  facts.runtime_version = 13000;
  return facts;
}

std::byte* allocate(int device, std::int64_t bytes) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  check_size(bytes);
  DeviceState& state = driver.device(device);
  driver.refuse_capture_on(device, "an allocation");
  const std::int64_t size = round_up(std::max<std::int64_t>(bytes, 1), kPage);
  const bool fails = driver.countdown == 0;
  if (driver.countdown >= 0) --driver.countdown;
  // A page without rights lies between two allocations.
  if (fails || state.used + size + kPage > kDeviceBytes) {
    throw SystemError("device {} has no {} for an allocation: {} are free", device,
                      format_bytes(bytes), format_bytes(kDeviceBytes - state.used));
  }
  std::byte* memory = state.base + state.used;
  state.used += size + kPage;
  state.blocks[memory] = bytes;
  mprotect(memory, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE);
  tell_unpoison(memory, static_cast<std::size_t>(size));
  std::memset(memory, 0xff, static_cast<std::size_t>(size));
  tell_poison(memory + bytes, static_cast<std::size_t>(size - bytes));
  mprotect(memory, static_cast<std::size_t>(size), PROT_NONE);
  return memory;
}

void give_back(int device, std::byte* memory) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  const auto state = driver.device_states.find(device);
  if (state == driver.device_states.end()) return;
  const auto block = state->second.blocks.find(memory);
  if (block == state->second.blocks.end()) return;
  // As cudaFree, which waits for the device.
  try {
    const Driver::Opened opened(driver);
    while (driver.step()) {
    }
  } catch (const std::exception&) {
    // The device is broken, and says so to the next call.
  }
  tell_unpoison(memory, static_cast<std::size_t>(round_up(block->second, kPage)));
  madvise(memory, static_cast<std::size_t>(round_up(block->second, kPage)), MADV_DONTNEED);
  state->second.blocks.erase(block);
  if (state->second.blocks.empty()) state->second.used = 0;
}

std::byte* allocate_pinned(std::int64_t bytes) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  check_size(bytes);
  auto memory = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes) + 1);
  std::memset(memory.get(), 0xff, static_cast<std::size_t>(bytes));
  driver.own_pinned[memory.get()] = bytes;
  driver.pinned.push_back({memory.get(), bytes});
  return memory.release();
}

void give_back_pinned(std::byte* memory) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  if (driver.own_pinned.erase(memory) == 0) return;
  unregister_host({memory, 0});
  delete[] memory;
}

void register_host(std::span<std::byte> memory) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.pinned.push_back({memory.data(), static_cast<std::int64_t>(memory.size())});
}

void unregister_host(std::span<std::byte> memory) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  std::erase_if(driver.pinned, [&](const Range& range) { return range.begin == memory.data(); });
}

Queue make_queue(int device, int /*priority*/) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.device(device);
  auto queue = std::make_unique<QueueState>();
  queue->device = device;
  queue->number = static_cast<int>(driver.queues.size()) + 1;
#if PHALANX_TSAN
  queue->tsan = __tsan_create_fiber(0);
#endif
  driver.queues.push_back(std::move(queue));
  return {driver.queues.size()};
}

void give_back(Queue queue) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  if (queue.id == 0 || queue.id > driver.queues.size()) return;
  auto& state = driver.queues[queue.id - 1];
#if PHALANX_TSAN
  if (state) __tsan_destroy_fiber(state->tsan);
#endif
  state.reset();
}

Mark make_mark(int device, bool timed) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.device(device);
  auto mark = std::make_unique<MarkState>();
  mark->device = device;
  mark->timed = timed;
  driver.marks.push_back(std::move(mark));
  return {driver.marks.size()};
}

void give_back(Mark mark) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  if (mark.id > 0 && mark.id <= driver.marks.size()) driver.marks[mark.id - 1].reset();
}

void record(Queue queue, Mark mark) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  MarkState& mark_state = driver.mark(mark);
  driver.refuse_capture(state, "a record");
  mark_state.last = std::make_shared<Point>();
  auto entry = std::make_unique<Entry>();
  entry->name = fmt::format("the record of mark {}", mark.id);
  entry->records = mark_state.last;
  driver.push(state, std::move(entry));
}

void wait(Queue queue, Mark mark) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  const MarkState& mark_state = driver.mark(mark);
  driver.refuse_capture(state, "a wait");
  if (!mark_state.last) return;
  auto entry = std::make_unique<Entry>();
  entry->name = fmt::format("a wait for mark {}", mark.id);
  entry->waits = mark_state.last;
  driver.push(state, std::move(entry));
}

bool passed(Mark mark) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  const MarkState& state = driver.mark(mark);
  driver.refuse_capture_on(state.device, "a query");
  if (!state.last) return true;
  if (!state.last->passed) {
    // A device goes on while the host asks.
    const Driver::Opened opened(driver);
    if (!driver.step()) throw InternalError("mark {} can never pass", mark.id);
  }
  if (state.last->passed) tell_acquire(&state.last->sync);
  return state.last->passed;
}

void wait_host(Mark mark) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  const MarkState& state = driver.mark(mark);
  driver.refuse_capture_on(state.device, "a wait of the host");
  if (!state.last) return;
  const auto point = state.last;
  driver.drive([&] { return point->passed; });
  tell_acquire(&point->sync);
}

void wait_host(Queue queue) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  driver.refuse_capture(state, "a wait of the host");
  driver.drive([&] { return state.entries.empty(); });
  tell_acquire(&state.done);
}

float milliseconds(Mark from, Mark to) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  const MarkState& first = driver.mark(from);
  const MarkState& second = driver.mark(to);
  PHALANX_CHECK(first.timed && second.timed, "marks {} and {} are not timed", from.id, to.id);
  PHALANX_CHECK(first.last && second.last && first.last->passed && second.last->passed,
                "marks {} and {} have not passed", from.id, to.id);
  return static_cast<float>(second.last->time - first.last->time) * 1e-3F;
}

std::string last_error(int device) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  const auto state = driver.device_states.find(device);
  return state == driver.device_states.end() ? std::string() : state->second.broken;
}

void copy(Queue queue, void* to, const void* from, std::int64_t bytes) {
  copy_rows(queue, to, bytes, from, bytes, bytes, 1);
}

void copy_rows(Queue queue, void* to, std::int64_t to_pitch, const void* from,
               std::int64_t from_pitch, std::int64_t bytes, std::int64_t rows) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  check_size(bytes);
  check_size(rows);
  if (bytes == 0 || rows == 0) return;
  PHALANX_CHECK(to_pitch >= bytes && from_pitch >= bytes, "rows of {} bytes overlap", bytes);
  driver.check_range("a copy to a range", to, (rows - 1) * to_pitch + bytes);
  driver.check_range("a copy from a range", from, (rows - 1) * from_pitch + bytes);
  driver.add(state, fmt::format("a copy of {} x {} bytes", rows, bytes), work_of([=] {
               for (std::int64_t r = 0; r < rows; ++r) {
                 std::memmove(static_cast<std::byte*>(to) + r * to_pitch,
                              static_cast<const std::byte*>(from) + r * from_pitch,
                              static_cast<std::size_t>(bytes));
               }
             }));
}

void set_bytes(Queue queue, void* to, int value, std::int64_t bytes) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  check_size(bytes);
  if (bytes == 0) return;
  driver.check_range("a fill", to, bytes);
  PHALANX_CHECK(driver.is_device_memory(to), "a fill of memory of the host");
  driver.add(state, fmt::format("a fill of {} bytes", bytes),
             work_of([=] { std::memset(to, value, static_cast<std::size_t>(bytes)); }));
}

void launch(Queue queue, const Kernel& kernel, Grid grid, BlockShape shape, const void* params,
            std::size_t params_bytes) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  const auto* bytes = static_cast<const std::byte*>(params);
  // As aligned as any params.
  struct alignas(16) Chunk {
    std::byte bytes[16];
  };
  std::vector<Chunk> copied((params_bytes + 15) / 16);
  std::memcpy(copied.data(), bytes, params_bytes);
  driver.add(state, kernel.name,
             work_of([&kernel, grid, shape, copied = std::move(copied), number = state.number] {
               emulated_machine().run(kernel, grid, shape, copied.data(), number);
             }));
}

void begin_capture(Queue queue) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  driver.refuse_capture(state, "a second capture");
  state.capture = std::make_unique<GraphState>();
}

Graph end_capture(Queue queue) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  PHALANX_CHECK(state.capture, "queue {} is not captured", queue.id);
  driver.graphs.push_back(std::move(state.capture));
  return {driver.graphs.size()};
}

void launch(Queue queue, Graph graph) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  QueueState& state = driver.queue(queue);
  driver.refuse_capture(state, "a launch of a graph");
  PHALANX_CHECK(graph.id > 0 && graph.id <= driver.graphs.size() && driver.graphs[graph.id - 1],
                "graph {} is not there", graph.id);
  for (const auto& [name, work] : driver.graphs[graph.id - 1]->nodes) driver.add(state, name, work);
}

void give_back(Graph graph) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  if (graph.id > 0 && graph.id <= driver.graphs.size()) driver.graphs[graph.id - 1].reset();
}

void enqueue_work(Queue queue, std::string name, std::shared_ptr<QueueWork> work) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.add(driver.queue(queue), std::move(name), std::move(work));
}

void set_queue_order(QueueOrder order, std::uint64_t seed) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.order = order;
  driver.draws = 2 * seed + 1;
}

void set_device_count(int count) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.devices = count;
}

void fail_allocation(int countdown) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.countdown = countdown;
}

std::int64_t entries_run() {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  return driver.ran;
}

void reset_driver() {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  for (auto& queue : driver.queues) {
#if PHALANX_TSAN
    if (queue) __tsan_destroy_fiber(queue->tsan);
#endif
    queue.reset();
  }
  driver.queues.clear();
  driver.marks.clear();
  driver.graphs.clear();
  for (auto& [number, state] : driver.device_states) {
    if (state.base == nullptr) continue;
    for (const auto& [block, bytes] : state.blocks) {
      tell_unpoison(block, static_cast<std::size_t>(round_up(bytes, kPage)));
    }
    munmap(state.base, static_cast<std::size_t>(kDeviceBytes));
  }
  driver.device_states.clear();
  for (const auto& [memory, bytes] : driver.own_pinned) delete[] memory;
  driver.own_pinned.clear();
  driver.pinned.clear();
  driver.countdown = -1;
  driver.devices = 1;
  driver.order = QueueOrder::kFirst;
}

}  // namespace phalanx::cuda
