#pragma once
// Errors of a template name it and the line.

#include <string>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::jinja {

class Place {
 public:
  explicit Place(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  // For what Jinja has and this program has not.
  template <typename... Args>
  [[noreturn]] void refuse(int line, fmt::format_string<Args...> format, Args&&... args) const {
    throw ConfigError("{}:{}: {}", name_, line, fmt::format(format, std::forward<Args>(args)...));
  }
  // For what is wrong.
  template <typename... Args>
  [[noreturn]] void reject(int line, fmt::format_string<Args...> format, Args&&... args) const {
    throw DataError("{}:{}: {}", name_, line, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string name_;
};

}  // namespace phalanx::jinja
