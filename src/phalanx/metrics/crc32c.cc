#include "phalanx/metrics/crc32c.h"

#include <array>

namespace phalanx {
namespace {

// What a byte does to the remainder; bits are in reversed order.
constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1U) != 0 ? kPolynomial : 0U);
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kByteTable = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = 0xFFFFFFFF;
  for (const char c : bytes) {
    rest = (rest >> 8) ^ kByteTable[(rest ^ static_cast<unsigned char>(c)) & 0xFFU];
  }
  return ~rest;
}

}  // namespace phalanx
