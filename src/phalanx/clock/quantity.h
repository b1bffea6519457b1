#pragma once
// A number that a prediction rests on, and where it comes from.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace phalanx {

enum class Origin : std::uint8_t {
  kDataSheet,  // of the vendor or the operator
  kMeasured,   // on the machine itself
  kFitted,     // to published or own measurements
  kDefault,    // assumed: a prediction with it is a range
  kGiven,      // a file says so and no more
};
// "data-sheet", "measured", "fitted", "default", "given": as files have it.
std::string_view name_of(Origin origin);
std::optional<Origin> origin_from_name(std::string_view name);

struct Quantity {
  double value = 0.0;
  Origin origin = Origin::kGiven;
  std::string source = {};
  // What the value may as well be; both are the value where nothing else is known.
  double low = value;
  double high = value;

  // Another value of the same source, which is no range then.
  void set(double to) { value = low = high = to; }
  bool is_range() const { return low < value || high > value; }
  friend bool operator==(const Quantity& a, const Quantity& b) = default;
};

// With its key in a file: "e_bw".
struct NamedQuantity {
  std::string key;
  Quantity quantity;
};
// Of a range: where a step is predicted to take the least time, or the most.
enum class RangeEnd : std::uint8_t { kFastest, kSlowest };

Quantity data_sheet(double value, std::string source);
Quantity measured(double value, std::string source);
Quantity fitted(double value, std::string source);
Quantity fitted(double value, double low, double high, std::string source);
Quantity assumed(double value, double low, double high, std::string source);

}  // namespace phalanx
