#include "phalanx/train/config_rules.h"

#include "phalanx/base/error.h"

namespace phalanx {

void require_positive(std::string_view flag, std::int64_t value) {
  if (value <= 0) throw ConfigError("{} must be given and above 0 (it is {})", flag, value);
}

void require_not_negative(std::string_view flag, std::int64_t value) {
  if (value < 0) throw ConfigError("{} must not be negative (it is {})", flag, value);
}

void require_range(std::string_view flag, double value, double low, double high) {
  if (!(value >= low && value < high)) {
    throw ConfigError("{} must be at least {} and below {} (it is {})", flag, low, high, value);
  }
}

void require_one_of(std::string_view flag, const std::string& value,
                    std::initializer_list<std::string_view> allowed) {
  std::string list;
  for (const auto name : allowed) {
    if (value == name) return;
    list += list.empty() ? std::string(name) : ", " + std::string(name);
  }
  throw ConfigError("{} {}: choose one of {}", flag, value, list);
}

}  // namespace phalanx
