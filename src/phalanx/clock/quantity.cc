#include "phalanx/clock/quantity.h"

#include <algorithm>
#include <array>
#include <utility>

namespace phalanx {
namespace {

struct OriginName {
  Origin origin;
  std::string_view name;
};
constexpr std::array kOrigins = {
    OriginName{Origin::kDataSheet, "data-sheet"}, OriginName{Origin::kMeasured, "measured"},
    OriginName{Origin::kFitted, "fitted"},        OriginName{Origin::kDefault, "default"},
    OriginName{Origin::kGiven, "given"},
};

}  // namespace

std::string_view name_of(Origin origin) {
  return std::ranges::find(kOrigins, origin, &OriginName::origin)->name;
}

std::optional<Origin> origin_from_name(std::string_view name) {
  const auto* const found = std::ranges::find(kOrigins, name, &OriginName::name);
  if (found == kOrigins.end()) return {};
  return found->origin;
}

Quantity data_sheet(double value, std::string source) {
  return {.value = value, .origin = Origin::kDataSheet, .source = std::move(source)};
}
Quantity measured(double value, std::string source) {
  return {.value = value, .origin = Origin::kMeasured, .source = std::move(source)};
}
Quantity fitted(double value, std::string source) {
  return {.value = value, .origin = Origin::kFitted, .source = std::move(source)};
}
Quantity fitted(double value, double low, double high, std::string source) {
  return {.value = value,
          .origin = Origin::kFitted,
          .source = std::move(source),
          .low = low,
          .high = high};
}
Quantity assumed(double value, double low, double high, std::string source) {
  return {.value = value,
          .origin = Origin::kDefault,
          .source = std::move(source),
          .low = low,
          .high = high};
}

}  // namespace phalanx
