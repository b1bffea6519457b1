#pragma once
// Integers as little-endian bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx::rendezvous {

inline void append_number(std::string& text, std::uint64_t value, int bytes) {
  for (int byte = 0; byte < bytes; ++byte) {
    text.push_back(static_cast<char>((value >> (8 * byte)) & 0xffU));
  }
}

// `text` must be long enough.
inline std::uint64_t read_number(std::string_view text, std::size_t offset, int bytes) {
  std::uint64_t value = 0;
  for (int byte = 0; byte < bytes; ++byte) {
    const auto digit = static_cast<unsigned char>(text[offset + static_cast<std::size_t>(byte)]);
    value |= std::uint64_t{digit} << (8 * byte);
  }
  return value;
}

}  // namespace phalanx::rendezvous
