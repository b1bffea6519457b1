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

// The calling thread, and those that it starts from now on, run on `cores` alone. False where the
// system refuses.
bool bind_thread(std::span<const int> cores);

// The share of `usable` cores, in their order, of one of `ranks` ranks of `threads` threads each.
// Empty, so that nothing is bound, unless several ranks share out all the cores: where a run leaves
// cores idle, another run may want those, and two runs that bind to the same ones would share them
// while others idle; where threads are more than cores, the system knows better who waits.
std::vector<int> cores_of_rank(std::span<const int> usable, int ranks, int rank, int threads);

// "0-3,8", of cores in any order.
std::string cores_text(std::span<const int> cores);

}  // namespace phalanx
