#pragma once
// Places in the snapshot's memory. What is taken first is given back first, so it is a ring.

#include <cstdint>
#include <deque>
#include <optional>

namespace phalanx {

class SnapshotRing {
 public:
  explicit SnapshotRing(std::int64_t capacity) : capacity_(capacity) {}

  // The offset of so many bytes in one piece; nothing if there is no room now.
  std::optional<std::int64_t> take(std::int64_t bytes);
  void give_back_oldest() { taken_.pop_front(); }
  void give_back_newest() { taken_.pop_back(); }

 private:
  struct Place {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  std::int64_t capacity_;
  std::deque<Place> taken_;
};

}  // namespace phalanx
