#include "phalanx/settings/window_text.h"

#include <charconv>
#include <limits>
#include <string>
#include <system_error>

#include "phalanx/base/error.h"
#include "phalanx/base/layer_choice.h"

namespace phalanx {
namespace {

std::string without_blanks(std::string_view text) {
  std::string packed(text);
  std::erase_if(packed, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
  return packed;
}

}  // namespace

std::int64_t window_from_text(std::string_view text) {
  std::string packed = without_blanks(text);
  if (packed.starts_with('(') && packed.ends_with(')'))
    packed = packed.substr(1, packed.size() - 2);
  std::int64_t left = 0, right = 0;
  const char* end = packed.data() + packed.size();
  const auto [comma, left_fault] = std::from_chars(packed.data(), end, left);
  const bool has_two = left_fault == std::errc{} && comma != end && *comma == ',';
  const auto [last, right_fault] = std::from_chars(has_two ? comma + 1 : end, end, right);
  if (!has_two || right_fault != std::errc{} || last != end) {
    throw ConfigError(
        "--window-size {}: give two whole numbers, L,0: the keys that a query sees before its own",
        text);
  }
  if (right != 0 && !(left < 0 && right == -1)) {
    throw ConfigError("--window-size {}: a GPT sees no keys behind the query's own; give {},0",
                      text, left);
  }
  if (left >= std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError("--window-size {}: no sequence is as long; give -1,0 to see all", text);
  }
  return left < 0 ? 0 : left + 1;
}

std::vector<bool> window_layers_from_text(std::string_view text, std::int64_t layers) {
  if (without_blanks(text).empty()) return {};
  return layers_from_text("--window-attn-skip-freq", text, layers,
                          [](std::int64_t layer, std::int64_t n) { return (layer + 1) % n != 0; });
}

}  // namespace phalanx
