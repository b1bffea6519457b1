#pragma once
// Which cores a thread may run on, and in what order they lie next to each other.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace phalanx {

// The kernel's numbers of the cores that the calling thread may run on, neighbours side by side: by
// NUMA node, then the hyper-threads of a core together. In numerical order where the system does
// not tell more; empty where it does not tell at all. `root` is / but in tests.
std::vector<int> cores_of_thread(const std::filesystem::path& root = "/");

// Binds the calling thread, and those that it starts from now on, to `cores`. False where the
// system refuses.
bool bind_thread(std::span<const int> cores);

// The share of `usable` cores, in their order, of one of `ranks` ranks of `threads` threads each.
// Empty, so that nothing is bound, unless several ranks use all the cores together. If cores stay
// idle, another run may be there, and two runs bound to the same cores would share these while
// others idle; if there are more threads than cores, the system schedules them better.
std::vector<int> cores_of_rank(std::span<const int> usable, int ranks, int rank, int threads);

// "0-3,8", of cores in any order.
std::string cores_text(std::span<const int> cores);

}  // namespace phalanx
