#pragma once
// What the parts of resolve() have in common: rules for one flag, ConfigError where a value breaks
// one.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "phalanx/train/config.h"

namespace phalanx {

void require_positive(std::string_view flag, std::int64_t value);
void require_not_negative(std::string_view flag, std::int64_t value);
// At least `low` and below `high`.
void require_range(std::string_view flag, double value, double low, double high);
void require_one_of(std::string_view flag, const std::string& value,
                    std::initializer_list<std::string_view> allowed);

// The schedule, its virtual stages and their layers; with the batch and the ranks resolved.
void resolve_pipeline(TrainConfig& config);

}  // namespace phalanx
