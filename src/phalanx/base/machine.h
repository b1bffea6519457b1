#pragma once
// The cores and the memory of this machine that the process may use, read at each call.

#include <cstdint>
#include <filesystem>
#include <string>

namespace phalanx {

struct UsableCores {
  int count = 1;
  std::string reason;  // "4 cores", "1 core by affinity", "2 cores by cpu.max of cgroup /job"
};

// The least of the machine's cores, those that the calling thread may run on, and the quotas of the
// control groups, rounded down; at least 1. `root` as for control_groups().
UsableCores usable_cores(const std::filesystem::path& root = "/");

struct AvailableMemory {
  std::int64_t bytes = 0;
  std::string limit;  // "MemAvailable", "memory.max of cgroup /job"
};

// What can still be taken before the kernel ends the process: the least of the machine's
// MemAvailable and what the control groups leave, page cache counted as free. Without either,
// everything there can be.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

// What people call the machine and its processor, and its memory in bytes; empty or 0 where the
// system does not say.
std::string host_name();
std::string processor_name(const std::filesystem::path& root = "/");
std::int64_t physical_memory();

}  // namespace phalanx
