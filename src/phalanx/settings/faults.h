#pragma once
// What is wrong with a configuration: all faults are told at once.

#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {

class Faults {
 public:
  // Whether the rules hold; what they throw as a ConfigError is kept.
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
  // ConfigError with a line for each, if there are any.
  void raise() const;

 private:
  std::vector<std::string> messages_;
};

}  // namespace phalanx
