#pragma once
// Unique names. No result depends on them; random numbers of results come from base/philox.h.

#include <string>
#include <string_view>

namespace phalanx {

inline constexpr int kUniqueDigits = 16;

// Random hexadecimal digits from the system; each call returns others.
std::string random_digits(int count);

// Whether `name` is `stem` and kUniqueDigits hexadecimal digits.
bool is_unique_name(std::string_view name, std::string_view stem);

}  // namespace phalanx
