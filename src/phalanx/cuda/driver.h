#pragma once
// What Phalanx asks of CUDA: memory, queues, marks, copies, launches, graphs. device/driver_cuda.cc
// answers with the CUDA runtime, emulated/driver.cc without a GPU; the linker chooses. Queues run
// beside each other and beside the host: only waits order them. Errors: UnavailableError without a
// driver or device, SystemError when CUDA refuses a call, InternalError for what no program may do
// (from the emulated driver alone, which sees it).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace phalanx::cuda {

struct Kernel;

struct Queue {
  std::uintptr_t id = 0;
};
// A point in a queue.
struct Mark {
  std::uintptr_t id = 0;
};
// What a capture has recorded.
struct Graph {
  std::uintptr_t id = 0;
};

struct Grid {
  std::int64_t x = 1;  // below 2^31
  std::int64_t y = 1;  // y and z below 2^16
  std::int64_t z = 1;
};
// What every block of a launch has.
struct BlockShape {
  int threads = 32;
  std::int64_t shared_bytes = 0;
};

struct Facts {
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int processors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t shared_bytes_per_block = 0;  // the most that a launch may ask for
  std::int64_t second_level_cache_bytes = 0;
  double memory_bytes_per_second = 0.0;  // by the memory's clock and width; 0 if not known
  int driver_version = 0;                // 13000 is CUDA 13.0
  int runtime_version = 0;
};

// Devices that the driver shows; 0 where there is none.
int device_count();
// What there is to say where it shows too few.
struct DriverFacts {
  int version = 0;    // as Facts::driver_version; 0: there is no driver
  int needed = 0;     // the oldest that takes this program
  std::string error;  // what the runtime says when it is asked for devices; empty: it shows some
};
DriverFacts driver_facts();
Facts facts(int device);

// Memory of a device, with any contents. SystemError names the size and what is free.
std::byte* allocate(int device, std::int64_t bytes);
void give_back(int device, std::byte* memory) noexcept;
// Memory of the host that copies may use; also of memory that is there already.
std::byte* allocate_pinned(std::int64_t bytes);
void give_back_pinned(std::byte* memory) noexcept;
void register_host(std::span<std::byte> memory);
void unregister_host(std::span<std::byte> memory) noexcept;

// A high priority is a lower number; 0 is the default.
Queue make_queue(int device, int priority = 0);
void give_back(Queue queue) noexcept;
Mark make_mark(int device, bool timed = false);
void give_back(Mark mark) noexcept;

void record(Queue queue, Mark mark);
// What comes in the queue runs after the mark's last record. A mark never recorded is passed.
void wait(Queue queue, Mark mark);
bool passed(Mark mark);
void wait_host(Mark mark);
void wait_host(Queue queue);
// Between two passed marks that are timed.
float milliseconds(Mark from, Mark to);
// The device's error that no call has thrown yet; empty without.
std::string last_error(int device);

// Between pinned memory and a device's, or within a device.
void copy(Queue queue, void* to, const void* from, std::int64_t bytes);
// `rows` rows of `bytes` bytes each, whose starts are the pitches apart.
void copy_rows(Queue queue, void* to, std::int64_t to_pitch, const void* from,
               std::int64_t from_pitch, std::int64_t bytes, std::int64_t rows);
void set_bytes(Queue queue, void* to, int value, std::int64_t bytes);

// The params are copied before the call returns.
void launch(Queue queue, const Kernel& kernel, Grid grid, BlockShape shape, const void* params,
            std::size_t params_bytes);

// Between the two calls the queue runs nothing: it records copies, sets and launches with their
// params. Waits and allocations are refused meanwhile.
void begin_capture(Queue queue);
Graph end_capture(Queue queue);
void launch(Queue queue, Graph graph);
void give_back(Graph graph) noexcept;

}  // namespace phalanx::cuda
