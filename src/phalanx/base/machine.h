#pragma once
// The cores and the memory that the process may use on this machine, read at each call.

#include <cstdint>
#include <filesystem>
#include <string>

namespace phalanx {

struct UsableCores {
  int count = 1;
  std::string reason;  // "4 cores", "1 core by affinity", "2 cores by cpu.max of cgroup /job"
};

// The minimum of the machine's cores, the cores that the calling thread may run on, and the quotas
// of the control groups, rounded down; at least 1. `root` as for control_groups().
UsableCores usable_cores(const std::filesystem::path& root = "/");

// Threads for each of `ranks` ranks that share this process's cores, where no flag says how many:
// OMP_NUM_THREADS, else the usable cores shared out; at least 1. UsageError where the variable is
// no number of threads.
UsableCores default_threads(std::int64_t ranks);

struct AvailableMemory {
  std::int64_t bytes = 0;
  std::string limit;  // "MemAvailable", "memory.max of cgroup /job"
};

// Memory that can be taken before the kernel kills the process: the minimum of the machine's
// MemAvailable and the rest of the control groups' limits, where page cache counts as free. The
// largest number if neither is known.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

// The name of the machine, the name of its processor, and its memory in bytes; "localhost", empty
// or 0 if the system does not report them.
std::string host_name();
std::string processor_name(const std::filesystem::path& root = "/");
std::int64_t physical_memory();

}  // namespace phalanx
