#pragma once
// Lines of many ranks, of which equal ones are told once, with how many said so. No clock of its
// own.

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace phalanx::launch {

class RepeatedLines {
 public:
  using Clock = std::chrono::steady_clock;

  void add(int rank, std::string line, Clock::time_point now);

  // Lines whose ranks have had time to say the same: "[rank 3] error: ...",
  // "[ranks 1-63] error: ... (x63)". A line that was told before is not told again by the same
  // ranks. All that are left where `all`.
  std::vector<std::string> take(Clock::time_point now, bool all = false);
  // When take() may have some; max() where nothing waits.
  Clock::time_point next() const;

 private:
  struct Waiting {
    std::string line;
    std::vector<int> ranks;
    std::size_t count = 0;
    Clock::time_point since;
  };
  std::vector<Waiting> waiting_;                       // in order of their first
  std::unordered_map<std::string, std::size_t> told_;  // lines, and by how many
  std::size_t dropped_ = 0;
};

// "3", "1-63", "0, 2-4".
std::string ranks_text(std::vector<int> ranks);

}  // namespace phalanx::launch
