#pragma once
// What tests tell the emulated driver (driver.h): in which order queues run, and what fails.

#include <cstdint>

namespace phalanx::cuda {

// Of all entries that may run next: of the queue made first, of the one made last, or of any.
enum class QueueOrder : std::uint8_t { kFirst, kLast, kAny };

// The oldest driver that takes this program, as the runtime counts: CUDA 13.0.
inline constexpr int kNeededDriver = 13000;

void set_queue_order(QueueOrder order, std::uint64_t seed = 0);
void set_device_count(int count);
// The allocation that comes so many after the next fails; none if negative.
void fail_allocation(int countdown);
// Entries that have run since the driver began.
std::int64_t entries_run();
// Forgets queues, marks, memory and errors, as a new process would.
void reset_driver();

}  // namespace phalanx::cuda
