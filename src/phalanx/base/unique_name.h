#pragma once
// Names that nobody else has. They are no part of any result: those come from base/philox.h.

#include <string>
#include <string_view>

namespace phalanx {

inline constexpr int kUniqueDigits = 16;

// Random hexadecimal digits from the system, others with each call.
std::string random_digits(int count);

// Whether `name` is `stem` and kUniqueDigits hexadecimal digits.
bool is_unique_name(std::string_view name, std::string_view stem);

}  // namespace phalanx
