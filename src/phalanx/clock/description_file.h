#pragma once
// Descriptions as YAML: a heading, and below it a key for each number. A number is written alone,
// or as a list that also says where it comes from:
//   e_bw: 0.82
//   e_bw: [0.82, fitted, "step times of four papers"]
//   e_bw: [0.82, default, "as an A100", 0.75, 0.90]        # low and high: a default must have them

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/clock/quantity.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx {

// The values that a number of a description may have.
struct Bounds {
  double least = 0.0;
  double most = 1e18;
  bool is_whole = false;
  bool slows = false;  // more of it takes a step longer
};
inline constexpr Bounds kShare = {.least = 1e-6, .most = 1.0};     // of a peak or a rate
inline constexpr Bounds kRate = {.least = 1.0};                    // FLOP or bytes a second
inline constexpr Bounds kSeconds = {.most = 10.0, .slows = true};  // of an op or a message
inline constexpr Bounds kFactor = {.least = 1.0, .most = 100.0, .slows = true};  // on a time
inline constexpr Bounds kLoss = {.most = 1.0, .slows = true};                    // share of a time
inline constexpr Bounds kCount = {
    .least = 1.0, .most = 1e6, .is_whole = true};                   // of cores, devices
inline constexpr Bounds kBytes = {.least = 1.0, .is_whole = true};  // of memory

// Reads the keys of a description, each once. DataError with FILE:LINE:COLUMN and the key for what
// is missing, unknown, no number, out of bounds or without its range.
class DescriptionReader {
 public:
  DescriptionReader(const YamlContents& contents, std::string_view file);

  void text(std::string_view key, std::string& text);
  // Must be there, unless the quantity has a source already: then that is what it is otherwise.
  void quantity(std::string_view key, Quantity& quantity, const Bounds& bounds);
  void optional_quantity(std::string_view key, std::optional<Quantity>& quantity,
                         const Bounds& bounds);
  // All keys that begin with the prefix, by what follows it.
  void quantities(std::string_view prefix, std::map<std::string, Quantity>& quantities,
                  const Bounds& bounds);
  // Two numbers of one origin: [FIRST, SECOND, ORIGIN, SOURCE].
  void optional_pair(std::string_view key, std::optional<Quantity>& first,
                     const Bounds& first_bounds, std::optional<Quantity>& second,
                     const Bounds& second_bounds);
  // An error if there are keys that nobody read.
  void finish() const;

 private:
  const YamlEntry* take(std::string_view key);
  const YamlEntry& required(std::string_view key, const YamlEntry* entry) const;

  const YamlContents& contents_;
  std::string_view file_;
  std::vector<std::string> keys_;  // that were asked for
};

// Writes them, in the order in which they come.
class DescriptionWriter {
 public:
  explicit DescriptionWriter(std::string heading);

  void text(std::string_view key, const std::string& text);
  void quantity(std::string_view key, const Quantity& quantity, const Bounds& bounds);
  void optional_quantity(std::string_view key, const std::optional<Quantity>& quantity,
                         const Bounds& bounds);
  void quantities(std::string_view prefix, const std::map<std::string, Quantity>& quantities,
                  const Bounds& bounds);
  void optional_pair(std::string_view key, const std::optional<Quantity>& first,
                     const Bounds& first_bounds, const std::optional<Quantity>& second,
                     const Bounds& second_bounds);
  std::string yaml() const;

 private:
  YamlSection section_;
};

// Calls a function for every number that the description has.
class QuantityWalk {
 public:
  using Visit = std::function<void(const std::string& key, Quantity& quantity, const Bounds&)>;
  explicit QuantityWalk(Visit visit) : visit_(std::move(visit)) {}

  void text(std::string_view /*key*/, std::string& /*text*/) {}
  void quantity(std::string_view key, Quantity& quantity, const Bounds& bounds) {
    visit_(std::string(key), quantity, bounds);
  }
  void optional_quantity(std::string_view key, std::optional<Quantity>& quantity,
                         const Bounds& bounds) {
    if (quantity) visit_(std::string(key), *quantity, bounds);
  }
  void quantities(std::string_view prefix, std::map<std::string, Quantity>& quantities,
                  const Bounds& bounds) {
    for (auto& [name, quantity] : quantities) {
      visit_(std::string(prefix) + name, quantity, bounds);
    }
  }

 private:
  Visit visit_;
};

// Whether the file has the heading; what it is a description of.
bool has_heading(const YamlContents& contents, std::string_view heading);

}  // namespace phalanx
