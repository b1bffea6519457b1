#pragma once
// Joins equal lines of many ranks to one line with their number. It has no clock.

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

  // The lines that have waited long enough for other ranks to print the same, or all lines:
  // "[rank 3] error: ...", "[ranks 1-63] error: ... (x63)". A line that was shown before is only
  // counted.
  std::vector<std::string> take(Clock::time_point now, bool all = false);
  // When take() may have some; max() if no line waits.
  Clock::time_point next() const;

 private:
  struct Waiting {
    std::string line;
    std::vector<int> ranks;
    std::size_t count = 0;
    Clock::time_point since;
  };
  std::vector<Waiting> waiting_;                        // in the order of their first ranks
  std::unordered_map<std::string, std::size_t> shown_;  // by line: how often it came again
  std::size_t dropped_ = 0;
};

// "3", "1-63", "0, 2-4".
std::string ranks_text(std::vector<int> ranks);

}  // namespace phalanx::launch
