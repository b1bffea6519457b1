#include "phalanx/checkpoint/retention.h"

#include <algorithm>
#include <iterator>

namespace phalanx {

std::vector<SavedCheckpoint> superfluous(
    const std::vector<SavedCheckpoint>& saved, const Retention& retention,
    const std::function<bool(const SavedCheckpoint&)>& is_verified) {
  std::vector<SavedCheckpoint> old;
  if (retention.keep_last == 0 || std::ssize(saved) <= retention.keep_last) return old;
  std::ptrdiff_t end = std::ssize(saved) - retention.keep_last;
  if (retention.waits_for_verified) {
    std::ptrdiff_t verified = std::ssize(saved) - 1;
    while (verified >= 0 && !is_verified(saved[static_cast<std::size_t>(verified)])) --verified;
    end = std::min(end, verified);
  }
  for (std::ptrdiff_t i = 0; i < end; ++i) {
    const SavedCheckpoint& checkpoint = saved[static_cast<std::size_t>(i)];
    const std::int64_t every = retention.keep_every;
    if (every == 0 || checkpoint.iteration % every != 0) old.push_back(checkpoint);
  }
  return old;
}

}  // namespace phalanx
