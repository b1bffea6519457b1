// Calls append entries to queues; nothing runs until somebody waits, and then in an order that
// nobody can rely on. Memory of a device is open only while entries run.

#include "phalanx/cuda/driver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cuda/emulated/driver_state.h"
#include "phalanx/cuda/kernel.h"

namespace phalanx::cuda {

using namespace emulated;

int device_count() {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  return driver.devices;
}

DriverFacts driver_facts() {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  return {.version = driver.version,
          .needed = kNeededDriver,
          .error = driver.devices > 0 ? "" : "no CUDA-capable device is detected"};
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
  facts.driver_version = driver.version;
  facts.runtime_version = kNeededDriver;
  return facts;
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
