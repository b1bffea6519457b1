#pragma once
// Views of the arrays that say which token comes when: they own nothing, and what they see may lie
// in memory or in a mapped file, aligned or not. Little-endian.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "phalanx/base/error.h"

namespace phalanx {

// Numbers from 0, of 4 or of 8 bytes each: 4 suffice until there are 2^32 documents or samples, and
// halve the memory.
class IndexArray {
 public:
  IndexArray() = default;
  IndexArray(std::span<const std::byte> bytes, int width)
      : data_(bytes.data()), size_(std::ssize(bytes) / width), is_wide_(width == 8) {
    PHALANX_CHECK(width == 4 || width == 8, "entries of {} bytes", width);
  }

  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](std::int64_t i) const {
    if (is_wide_) return load<std::int64_t>(i);
    return load<std::uint32_t>(i);
  }
  void prefetch(std::int64_t i) const { __builtin_prefetch(data_ + i * (is_wide_ ? 8 : 4)); }

 private:
  template <typename T>
  T load(std::int64_t i) const {
    T value;
    std::memcpy(&value, data_ + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  bool is_wide_ = false;
};

// Tokens of each sequence, 4 bytes each, as an .idx file has them.
class SequenceLengths {
 public:
  explicit SequenceLengths(std::span<const std::byte> bytes) : bytes_(bytes) {}
  explicit SequenceLengths(std::span<const std::int32_t> lengths)
      : bytes_(std::as_bytes(lengths)) {}

  std::int64_t size() const { return std::ssize(bytes_) / kWidth; }
  std::int32_t operator[](std::int64_t i) const {
    std::int32_t length;
    std::memcpy(&length, bytes_.data() + i * kWidth, sizeof(length));
    return length;
  }
  void prefetch(std::int64_t i) const { __builtin_prefetch(bytes_.data() + i * kWidth); }
  std::span<const std::byte> bytes() const { return bytes_; }
  SequenceLengths part(std::int64_t begin, std::int64_t end) const {
    return SequenceLengths(bytes_.subspan(begin * kWidth, (end - begin) * kWidth));
  }

 private:
  static constexpr std::int64_t kWidth = sizeof(std::int32_t);

  std::span<const std::byte> bytes_;
};

}  // namespace phalanx
