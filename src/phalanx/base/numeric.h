#pragma once
// Small integer arithmetic, and the format of byte sizes and counts.

#include <cstdint>
#include <string>

namespace phalanx {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

// "1.50 GiB", "12.0 KiB", "17 B": three significant digits, powers of 1,024.
std::string format_bytes(std::int64_t bytes);
// "1,234,567".
std::string format_count(std::int64_t count);

}  // namespace phalanx
