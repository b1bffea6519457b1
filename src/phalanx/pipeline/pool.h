#pragma once
// Hands out blocks (intervals of bytes) of a pool that grows as needed. Neighbouring holes are
// joined, so its state depends only on the blocks in use and its size. Holes are few and kept in
// sorted lists.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/tensor/arena.h"

namespace phalanx {

class Pool {
 public:
  // The offset of a block of `bytes`, rounded up to the arena's alignment: in the smallest hole
  // that fits, the first of equal ones.
  std::int64_t allocate(std::int64_t bytes) {
    bytes = round_up(bytes, kArenaAlignment);
    if (bytes == 0) return 0;
    const auto best = std::ranges::lower_bound(by_size_, Pair{bytes, 0});
    if (best == by_size_.end()) return extend(bytes);
    const std::int64_t offset = best->second;
    take(first_from(offset), offset, bytes);
    return offset;
  }

  // Takes the block at this offset if it is free; whether it was.
  bool allocate_at(std::int64_t offset, std::int64_t bytes) {
    bytes = round_up(bytes, kArenaAlignment);
    if (bytes == 0) return true;
    const auto behind = std::ranges::upper_bound(holes_, offset, {}, &Pair::first);
    if (behind == holes_.begin()) return false;
    const auto hole = std::prev(behind);
    if (offset + bytes > hole->first + hole->second) return false;
    take(hole, offset, bytes);
    return true;
  }

  // Frees a block; `bytes` as in its allocation.
  void free(std::int64_t offset, std::int64_t bytes) {
    bytes = round_up(bytes, kArenaAlignment);
    if (bytes == 0) return;
    const auto next = first_from(offset);
    const bool joins_next = next != holes_.end() && offset + bytes == next->first;
    if (next != holes_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        const std::int64_t joined = previous->second + bytes + (joins_next ? next->second : 0);
        change_hole(previous, previous->first, joined);
        if (joins_next) remove_hole(next);
        return;
      }
    }
    if (joins_next) return change_hole(next, offset, bytes + next->second);
    add_hole(next, offset, bytes);
  }

  std::int64_t size() const { return size_; }

 private:
  using Pair = std::pair<std::int64_t, std::int64_t>;
  using Holes = std::vector<Pair>;  // (offset, bytes), in order

  Holes::iterator first_from(std::int64_t offset) {
    return std::ranges::lower_bound(holes_, offset, {}, &Pair::first);
  }
  // Inserts a hole before `next`.
  void add_hole(Holes::iterator next, std::int64_t offset, std::int64_t bytes) {
    holes_.insert(next, {offset, bytes});
    const Pair sized(bytes, offset);
    by_size_.insert(std::ranges::lower_bound(by_size_, sized), sized);
  }
  void remove_hole(Holes::iterator hole) {
    by_size_.erase(std::ranges::lower_bound(by_size_, Pair{hole->second, hole->first}));
    holes_.erase(hole);
  }
  // The order by offset stays; in the order by size only the holes between the two sizes move.
  void change_hole(Holes::iterator hole, std::int64_t offset, std::int64_t bytes) {
    const Pair sized(bytes, offset);
    const auto from = std::ranges::lower_bound(by_size_, Pair{hole->second, hole->first});
    const auto to = std::ranges::lower_bound(by_size_, sized);
    if (from < to) {
      *std::move(from + 1, to, from) = sized;
    } else {
      std::move_backward(to, from, from + 1);
      *to = sized;
    }
    *hole = {offset, bytes};
  }

  // Takes a part of a hole.
  void take(Holes::iterator hole, std::int64_t offset, std::int64_t bytes) {
    const auto [begin, size] = *hole;
    const std::int64_t left = begin + size - (offset + bytes);
    if (offset > begin) {
      change_hole(hole, begin, offset - begin);
      if (left > 0) add_hole(hole + 1, offset + bytes, left);
    } else if (left > 0) {
      change_hole(hole, offset + bytes, left);
    } else {
      remove_hole(hole);
    }
  }

  // Grows the pool; a hole at its end is used.
  std::int64_t extend(std::int64_t bytes) {
    std::int64_t offset = size_;
    if (!holes_.empty()) {
      const auto last = std::prev(holes_.end());
      if (last->first + last->second == size_) {
        offset = last->first;
        remove_hole(last);
      }
    }
    size_ = offset + bytes;
    return offset;
  }

  Holes holes_;
  std::vector<Pair> by_size_;  // the same as (bytes, offset), in order
  std::int64_t size_ = 0;
};

}  // namespace phalanx
