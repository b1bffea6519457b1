#pragma once
// Remembers the ids of the words that a text repeats: one place for each value of the hash, the
// newest word in it. What it forgets is only encoded again.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace phalanx {

class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 31;  // bytes
  static constexpr std::size_t kMostIds = 7;

  // The word as it is compared; words of more bytes have none.
  struct Key {
    std::array<std::uint64_t, 4> parts{};  // the bytes, zeros, and the length in the last byte
    friend bool operator==(const Key& a, const Key& b) {
      return ((a.parts[0] ^ b.parts[0]) | (a.parts[1] ^ b.parts[1]) | (a.parts[2] ^ b.parts[2]) |
              (a.parts[3] ^ b.parts[3])) == 0;
    }
  };
  // `readable` bytes may be read from the beginning of the word.
  static Key key_of(std::string_view word, std::size_t readable) {
    Key key;
    if (readable < sizeof(Key)) {
      std::memcpy(key.parts.data(), word.data(), word.size());
    } else {
      std::memcpy(key.parts.data(), word.data(), 8);
      if (word.size() <= 8) {
        key.parts[0] &= first_bytes(word.size());
      } else {
        std::memcpy(key.parts.data() + 1, word.data() + 8, 24);
        const std::size_t last = word.size() / 8;
        key.parts[last] &= first_bytes(word.size() % 8);
        for (std::size_t part = last + 1; part < key.parts.size(); ++part) key.parts[part] = 0;
      }
    }
    key.parts[3] |= std::uint64_t{word.size()} << 56;
    return key;
  }

  // The ids of the word; empty where it is not known.
  std::span<const std::int32_t> find(const Key& key) const {
    const Slot& slot = slots_[slot_of(key)];
    if (slot.key != key) return {};
    return {slot.ids.data(), static_cast<std::size_t>(slot.count)};
  }
  // 1 to kMostIds ids.
  void insert(const Key& key, std::span<const std::int32_t> ids) {
    Slot& slot = slots_[slot_of(key)];
    slot.key = key;
    slot.count = static_cast<std::int32_t>(ids.size());
    std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");
  static constexpr int kSlotBits = 14;  // 1 MiB, a part of most second-level caches

  struct alignas(64) Slot {
    Key key;
    std::array<std::int32_t, kMostIds> ids{};
    std::int32_t count = 0;
  };

  // A mask of 0 to 8 bytes.
  static std::uint64_t first_bytes(std::size_t count) {
    return count == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * count)) - 1;
  }
  static std::size_t slot_of(const Key& key) {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
    std::uint64_t hash = (key.parts[0] ^ std::rotl(key.parts[3], 17)) * kOdd;
    hash = (std::rotl(hash, 29) ^ key.parts[1]) * kOdd;
    hash = (std::rotl(hash, 29) ^ key.parts[2]) * kOdd;
    return static_cast<std::size_t>(hash >> (64 - kSlotBits));
  }

  std::vector<Slot> slots_ = std::vector<Slot>(std::size_t{1} << kSlotBits);
};

}  // namespace phalanx
