#pragma once
// A hash map from a pair of token ids to an index: open addressing in one array, insert and find
// only.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace phalanx {

class PairMap {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  // Ids are not negative; so keys order as (left, right) does, and kEmpty is none of them.
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }

  // The value of the key, or kNone.
  std::uint32_t find(std::uint64_t key) const { return slots_[slot_of(key)].value; }

  // The value of the key, which becomes `value` if it was not there.
  std::uint32_t find_or_insert(std::uint64_t key, std::uint32_t value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[slot_of(key)];
    if (slot.key == kEmpty) {
      slot = {key, value};
      ++size_;
    }
    return slot.value;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    std::uint32_t value = kNone;
  };

  // Fibonacci hashing: the high bits of the product.
  std::size_t slot_of(std::uint64_t key) const {
    std::uint64_t hash = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15U;
    std::size_t slot = static_cast<std::size_t>(hash >> shift_);
    while (slots_[slot].key != key && slots_[slot].key != kEmpty) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }

  void grow() {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(2 * old.size(), Slot{});
    --shift_;
    for (const auto& slot : old) {
      if (slot.key != kEmpty) slots_[slot_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(16);
  int shift_ = 60;  // 64 - log2(slots)
  std::size_t size_ = 0;
};

}  // namespace phalanx
