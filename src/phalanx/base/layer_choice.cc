#include "phalanx/base/layer_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

std::string without_blanks(std::string_view text) {
  std::string packed(text);
  std::erase_if(packed, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
  return packed;
}

// Reads an expression of whole numbers and lists of them.
class Pattern {
 public:
  using List = std::vector<std::int64_t>;
  using Value = std::variant<std::int64_t, List>;

  Pattern(std::string_view flag, std::string_view text)
      : flag_(flag), text_(text), packed_(without_blanks(text)) {}

  Value read() {
    Value value = sum(0);
    if (at_ < packed_.size()) refuse();
    return value;
  }

 private:
  // Longer lists are a typing error.
  static constexpr std::int64_t kMostElements = 65536;
  static constexpr int kMostDepth = 32;

  [[noreturn]] void refuse() const {
    throw ConfigError(
        "{} {}: give a number N, or a list of 0 and 1 with an element for each layer, such as "
        "[0]*2+[1]*3",
        flag_, text_);
  }
  bool take(char c) {
    if (at_ >= packed_.size() || packed_[at_] != c) return false;
    ++at_;
    return true;
  }

  Value sum(int depth) {
    Value value = product(depth);
    while (take('+')) {
      const Value right = product(depth);
      if (auto* list = std::get_if<List>(&value)) {
        const auto* more = std::get_if<List>(&right);
        if (more == nullptr) refuse();
        if (std::ssize(*list) + std::ssize(*more) > kMostElements) refuse();
        list->insert(list->end(), more->begin(), more->end());
      } else {
        value = number(value) + number(right);
        if (number(value) > kMostElements) refuse();
      }
    }
    return value;
  }

  Value product(int depth) {
    Value value = factor(depth);
    while (take('*')) {
      Value right = factor(depth);
      if (std::holds_alternative<List>(right)) std::swap(value, right);
      const std::int64_t times = number(right);
      if (const auto* list = std::get_if<List>(&value)) {
        if (times * std::ssize(*list) > kMostElements) refuse();
        List repeated;
        for (std::int64_t i = 0; i < times; ++i) {
          repeated.insert(repeated.end(), list->begin(), list->end());
        }
        value = std::move(repeated);
      } else {
        value = number(value) * times;
        if (number(value) > kMostElements) refuse();
      }
    }
    return value;
  }

  Value factor(int depth) {
    if (depth > kMostDepth) refuse();
    if (take('(')) {
      Value value = sum(depth + 1);
      if (!take(')')) refuse();
      return value;
    }
    if (!take('[')) return digits();
    List list;
    while (!take(']')) {
      list.push_back(number(sum(depth + 1)));
      if (take(',')) continue;
      if (!take(']')) refuse();
      break;
    }
    return list;
  }

  std::int64_t number(const Value& value) const {
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr) refuse();
    return *number;
  }

  std::int64_t digits() {
    std::int64_t value = 0;
    const char* begin = packed_.data() + at_;
    const auto [end, fault] = std::from_chars(begin, packed_.data() + packed_.size(), value);
    if (fault != std::errc{} || value < 0 || value > kMostElements) refuse();
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string_view flag_, text_;
  std::string packed_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<bool> layers_from_text(std::string_view flag, std::string_view text,
                                   std::int64_t layers, EveryNth is_one) {
  const Pattern::Value value = Pattern(flag, text).read();
  std::vector<bool> chosen(static_cast<std::size_t>(layers));
  if (const auto* every = std::get_if<std::int64_t>(&value)) {
    if (*every < 1) throw ConfigError("{} {}: give at least 1", flag, text);
    for (std::int64_t i = 0; i < layers; ++i) {
      chosen[static_cast<std::size_t>(i)] = is_one(i, *every);
    }
    return chosen;
  }
  const auto& list = std::get<Pattern::List>(value);
  if (std::ssize(list) != layers) {
    throw ConfigError("{} {}: a list of {} elements for --num-layers {}", flag, text, list.size(),
                      layers);
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != 0 && list[i] != 1) {
      throw ConfigError("{} {}: an element is {}; give 0 or 1", flag, text, list[i]);
    }
    chosen[i] = list[i] == 1;
  }
  return chosen;
}

std::string layer_list_text(const std::vector<bool>& layers) {
  std::string text;
  for (auto run = layers.begin(); run != layers.end();) {
    const auto end = std::find(run, layers.end(), !*run);
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", *run ? 1 : 0, end - run);
    run = end;
  }
  return text;
}

}  // namespace phalanx
