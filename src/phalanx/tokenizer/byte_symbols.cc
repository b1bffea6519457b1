#include "phalanx/tokenizer/byte_symbols.h"

#include <array>
#include <cstddef>

namespace phalanx {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}
constexpr int kFirstSubstitute = 0x100;
constexpr int kLastCodePoint = kFirstSubstitute + 67;

struct Tables {
  std::array<std::uint16_t, kByteSymbols> code_point{};    // by byte
  std::array<std::int16_t, kLastCodePoint + 1> byte{};     // by code point; -1 = none
  std::array<std::uint8_t, kByteSymbols> by_code_point{};  // bytes in the order of their symbols
};

constexpr Tables make_tables() {
  Tables tables;
  tables.byte.fill(-1);
  int substitute = kFirstSubstitute;
  for (int byte = 0; byte < kByteSymbols; ++byte) {
    const int code_point = stands_for_itself(byte) ? byte : substitute++;
    tables.code_point[static_cast<std::size_t>(byte)] = static_cast<std::uint16_t>(code_point);
    tables.byte[static_cast<std::size_t>(code_point)] = static_cast<std::int16_t>(byte);
  }
  std::size_t index = 0;
  for (const auto byte : tables.byte) {
    if (byte >= 0) tables.by_code_point[index++] = static_cast<std::uint8_t>(byte);
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint8_t byte_of_symbol(int index) {
  return kTables.by_code_point.at(static_cast<std::size_t>(index));
}

std::string symbols_from_bytes(std::string_view bytes) {
  std::string symbols;
  symbols.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const unsigned code_point = kTables.code_point[static_cast<std::uint8_t>(c)];
    if (code_point < 0x80) {
      symbols.push_back(static_cast<char>(code_point));
    } else {  // all below U+0800: two UTF-8 bytes
      symbols.push_back(static_cast<char>(0xc0U | (code_point >> 6)));
      symbols.push_back(static_cast<char>(0x80U | (code_point & 0x3fU)));
    }
  }
  return symbols;
}

std::optional<std::string> bytes_from_symbols(std::string_view symbols) {
  std::string bytes;
  bytes.reserve(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    unsigned code_point = static_cast<std::uint8_t>(symbols[i]);
    if (code_point >= 0x80) {
      if ((code_point & 0xe0U) != 0xc0U || i + 1 == symbols.size()) return std::nullopt;
      const unsigned tail = static_cast<std::uint8_t>(symbols[++i]);
      if ((tail & 0xc0U) != 0x80U) return std::nullopt;
      code_point = (code_point & 0x1fU) << 6 | (tail & 0x3fU);
      if (code_point < 0x80) return std::nullopt;  // overlong
    }
    if (code_point > static_cast<unsigned>(kLastCodePoint) || kTables.byte[code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kTables.byte[code_point]));
  }
  return bytes;
}

}  // namespace phalanx
