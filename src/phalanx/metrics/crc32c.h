#pragma once
// CRC-32C (Castagnoli), as in RFC 3720 and in the records of TensorBoard's files. Debian 12 has no
// package of a library for C++.

#include <cstdint>
#include <string_view>

namespace phalanx {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace phalanx
