#pragma once
// Collects what is wrong with a configuration, so that all faults are reported at once.

#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {

class Faults {
 public:
  // Runs `rules` and keeps the ConfigError that they throw. Returns whether they threw none.
  template <typename Rules>
  bool hold(const Rules& rules) {
    try {
      rules();
      return true;
    } catch (const ConfigError& error) {
      messages_.emplace_back(error.what());
      return false;
    }
  }
  void add(std::string message) { messages_.push_back(std::move(message)); }
  bool empty() const { return messages_.empty(); }
  // Throws a ConfigError with a line for each fault, if there are any.
  void raise() const;

 private:
  std::vector<std::string> messages_;
};

}  // namespace phalanx
