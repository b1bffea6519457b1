#include "phalanx/start/snapshot_share.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace phalanx {

double snapshot_share(std::int64_t saved_bytes, std::int64_t needed, std::int64_t available) {
  if (saved_bytes == 0) return 0.0;
  const std::int64_t half = std::max<std::int64_t>(0, available - needed) / 2;
  return std::min(1.0, static_cast<double>(half) / static_cast<double>(saved_bytes));
}

void plan_snapshots(RankRunner& runner, std::int64_t needed, const AvailableMemory& available,
                    std::span<RankPlan> plans) {
  std::int64_t own = 0;
  for (const RankPlan& plan : plans) own += plan.memory.saved_bytes * std::ssize(plan.ranks);
  const std::vector<std::string> texts =
      runner.gather(fmt::format("{} {} {}", own, needed, available.bytes));
  // Of the processes of this host; what is available they may have asked at different moments.
  std::int64_t all = 0;
  std::int64_t all_needed = 0;
  std::int64_t least = available.bytes;
  const int here = runner.places()[static_cast<std::size_t>(runner.own_ranks().front())].host;
  for (std::size_t process = 0; process < texts.size(); ++process) {
    if (texts.size() > 1 && runner.places()[process].host != here) continue;
    std::istringstream text(texts[process]);
    std::int64_t copies = 0;
    std::int64_t needs = 0;
    std::int64_t has = 0;
    text >> copies >> needs >> has;
    all += copies;
    all_needed += needs;
    least = std::min(least, has);
  }
  const double share = snapshot_share(all, all_needed, least);
  for (RankPlan& plan : plans) {
    reserve_snapshot(plan.memory, static_cast<std::int64_t>(std::floor(
                                      share * static_cast<double>(plan.memory.saved_bytes))));
  }
}

}  // namespace phalanx
