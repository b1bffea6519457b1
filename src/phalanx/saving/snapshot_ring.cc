#include "phalanx/saving/snapshot_ring.h"

namespace phalanx {

std::optional<std::int64_t> SnapshotRing::take(std::int64_t bytes) {
  std::int64_t begin = 0;
  std::int64_t end = capacity_;
  if (!taken_.empty()) {
    const Place& oldest = taken_.front();
    const Place& newest = taken_.back();
    begin = newest.end;
    const bool has_wrapped = newest.begin < oldest.begin;
    if (has_wrapped) {
      end = oldest.begin;
    } else if (bytes > end - begin) {
      begin = 0;
      end = oldest.begin;
    }
  }
  if (bytes > end - begin) return std::nullopt;
  taken_.push_back({begin, begin + bytes});
  return begin;
}

}  // namespace phalanx
