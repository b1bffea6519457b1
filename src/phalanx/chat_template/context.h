#pragma once
// What one rendering may spend, where it is, and what it owns.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/chat_template/place.h"
#include "phalanx/chat_template/value.h"

namespace phalanx::jinja {

class Context {
 public:
  static constexpr std::int64_t kMostSteps = 1'000'000;
  static constexpr std::size_t kMostText = std::size_t{16} << 20;   // bytes of one text
  static constexpr std::size_t kMostWork = std::size_t{256} << 20;  // bytes made and looked through
  static constexpr int kMostContainers = 100;                       // in each other

  Context(const Place& place, std::optional<std::chrono::year_month_day> date)
      : place_(place), date_(date) {}

  void set_line(int line) { line_ = line; }
  int line() const { return line_; }
  const Place& place() const { return place_; }
  const std::optional<std::chrono::year_month_day>& date() const { return date_; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    place_.reject(line_, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    place_.refuse(line_, format, std::forward<Args>(args)...);
  }

  // DataError beyond the limits.
  void step() {
    if (++steps_ > kMostSteps) fail("the template takes more than {} steps", kMostSteps);
  }
  void charge(std::size_t bytes) {
    work_ += bytes;
    if (work_ > kMostWork) fail("the template makes more than {} MiB of values", kMostWork >> 20U);
  }
  void check_length(std::size_t bytes) const {
    if (bytes > kMostText) fail("the template makes a text of more than {} MiB", kMostText >> 20U);
  }

  // Values, paid for.
  Value text(std::string bytes);
  Value list(std::vector<Value> items, List::Kind kind = List::Kind::kList);
  Value dict(std::vector<std::pair<Value, Value>> entries);
  // Adds or replaces an entry.
  void set(std::vector<std::pair<Value, Value>>& entries, const Value& key, Value value);
  Namespace* make_namespace() { return &namespaces_.emplace_back(); }

 private:
  const Place& place_;
  std::optional<std::chrono::year_month_day> date_;
  int line_ = 0;
  std::int64_t steps_ = 0;
  std::size_t work_ = 0;
  std::deque<Namespace> namespaces_;
};

}  // namespace phalanx::jinja
