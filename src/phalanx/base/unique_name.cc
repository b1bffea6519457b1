#include "phalanx/base/unique_name.h"

#include <random>

namespace phalanx {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string random_digits(int count) {
  std::random_device device;
  std::string digits(static_cast<std::size_t>(count), '0');
  for (char& digit : digits) digit = kDigits[device() % kDigits.size()];
  return digits;
}

bool is_unique_name(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return name.size() == kUniqueDigits && name.find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace phalanx
