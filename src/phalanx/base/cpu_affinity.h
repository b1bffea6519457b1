#pragma once
// Which cores a thread may run on, and which of them are neighbours.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace phalanx {

// The kernel's numbers of the cores that the calling thread may run on, neighbours together: by
// NUMA node, then by the hyper-threads of a core. In numerical order if the system does not report
// neighbours; empty if it reports nothing. `root` is / except in tests.
std::vector<int> cores_of_thread(const std::filesystem::path& root = "/");

// Binds the calling thread, and threads that it starts later, to `cores`. False if the system
// refuses.
bool bind_thread(std::span<const int> cores);

// The part of `usable`, in order, for rank `rank` of `ranks` ranks with `threads` threads each.
// Empty (nothing is bound) unless several ranks together use all cores. If cores stay idle, a
// second run may be bound to the same busy cores; with more threads than cores the system's
// scheduling is better.
std::vector<int> cores_of_rank(std::span<const int> usable, int ranks, int rank, int threads);

// Formats cores in any order: "0-3,8".
std::string cores_text(std::span<const int> cores);

}  // namespace phalanx
