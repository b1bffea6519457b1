#pragma once
// GPT-2's printable alphabet: one Unicode character for each byte, so that vocab.json and
// merges.txt can hold arbitrary bytes as text without white space. Printable Latin-1 stands for
// itself; the other 68 bytes, in order, are U+0100, U+0101, ... (a space is U+0120).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace phalanx {

inline constexpr int kByteSymbols = 256;

// The byte whose symbol is number `index` by code point: '!' first, 0xAD last. GPT-2 numbers its
// first 256 ids so.
std::uint8_t byte_of_symbol(int index);

// UTF-8 text of the symbols of `bytes`.
std::string symbols_from_bytes(std::string_view bytes);
// The reverse; nothing where a character stands for no byte or the text is not UTF-8.
std::optional<std::string> bytes_from_symbols(std::string_view symbols);

}  // namespace phalanx
