#include "phalanx/comm/local/busy_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace phalanx::local {
namespace {

std::string format_time(Work::Clock::duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  return seconds < 100.0 ? fmt::format("{:.3g} s", seconds)
                         : fmt::format("{:.0f} min", seconds / 60.0);
}

}  // namespace

BusyRanks::BusyRanks(int size) : ranks_(static_cast<std::size_t>(size)) {}

void BusyRanks::begin(int rank, std::string what, Clock::time_point now) {
  ranks_[static_cast<std::size_t>(rank)].activities.push_back({std::move(what), now});
}

void BusyRanks::end(int rank) { ranks_[static_cast<std::size_t>(rank)].activities.pop_back(); }

void BusyRanks::act(int rank, std::span<const PendingWait> waits, Clock::time_point now) {
  if (!is_busy(rank)) return;
  const std::vector<int> busy = whom_ranks_wait_for(waits);
  for (std::size_t other = 0; other < ranks_.size(); ++other) {
    if (busy[other] != kNobody) ranks_[other].excused_until = now;
  }
}

// For every rank: itself if it is busy, else the busy rank that it waits for, directly or through
// other ranks.
std::vector<int> BusyRanks::whom_ranks_wait_for(std::span<const PendingWait> waits) const {
  std::vector<int> busy(ranks_.size(), kNobody);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (is_busy(static_cast<int>(rank))) busy[rank] = static_cast<int>(rank);
  }
  for (const PendingWait& wait : waits) {
    for (const int rank : wait.ranks) busy[static_cast<std::size_t>(rank)] = kNobody;
  }
  std::vector<bool> known(waits.size(), false);
  for (bool found = true; found;) {
    found = false;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (known[i]) continue;
      const auto first = std::ranges::find_if(waits[i].missing, [&](int missing) {
        return busy[static_cast<std::size_t>(missing)] != kNobody;
      });
      if (first == waits[i].missing.end()) continue;
      for (const int rank : waits[i].ranks) {
        busy[static_cast<std::size_t>(rank)] = busy[static_cast<std::size_t>(*first)];
      }
      known[i] = found = true;
    }
  }
  return busy;
}

BusyRanks::Excuse BusyRanks::excuse(std::span<const int> missing,
                                    std::span<const PendingWait> waits,
                                    Clock::time_point now) const {
  const std::vector<int> busy = whom_ranks_wait_for(waits);
  Excuse excuse;
  for (const int rank : missing) {
    const auto r = static_cast<std::size_t>(rank);
    excuse.until = std::max(excuse.until, ranks_[r].excused_until);
    if (busy[r] == kNobody || !excuse.reason.empty()) continue;
    const Activity& activity = ranks_[static_cast<std::size_t>(busy[r])].activities.back();
    excuse.reason = fmt::format("rank {}, which has been {} for {}", busy[r], activity.what,
                                format_time(now - activity.since));
  }
  if (!excuse.reason.empty()) excuse.until = now;
  return excuse;
}

}  // namespace phalanx::local
