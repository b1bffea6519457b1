#include "phalanx/hugging_face/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::string_view kSize = "--window-size";
constexpr std::string_view kLayers = "--window-attn-skip-freq";

// Reads the number at the beginning of a text and removes it.
std::int64_t take_number(std::string_view& rest, std::string_view flag, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (fault != std::errc{}) throw DataError("the checkpoint's {} cannot be read: {}", flag, text);
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

std::vector<bool> layers_of(const std::string& text, std::int64_t count) {
  std::vector<bool> layers;
  std::string_view rest = text;
  const auto fail = [&] {
    throw DataError("the checkpoint's {} is no list of {} layers: {}", kLayers, count, text);
  };
  if (text.empty()) return std::vector<bool>(static_cast<std::size_t>(count), true);
  if (!text.starts_with('[')) {
    const std::int64_t period = take_number(rest, kLayers, text);
    if (period < 1 || !rest.empty()) fail();
    for (std::int64_t layer = 1; layer <= count; ++layer) layers.push_back(layer % period != 0);
    return layers;
  }
  const auto take = [&](char c) {
    const bool is_there = rest.starts_with(c);
    if (is_there) rest.remove_prefix(1);
    return is_there;
  };
  do {
    std::vector<bool> part;
    if (!take('[')) fail();
    do {
      const std::int64_t has = take_number(rest, kLayers, text);
      if (has != 0 && has != 1) fail();
      part.push_back(has == 1);
    } while (take(','));
    if (!take(']')) fail();
    std::int64_t times = take('*') ? take_number(rest, kLayers, text) : 1;
    for (; times > 0 && std::ssize(layers) <= count; --times) {
      layers.insert(layers.end(), part.begin(), part.end());
    }
  } while (take('+'));
  if (!rest.empty() || std::ssize(layers) != count) fail();
  return layers;
}

}  // namespace

Window window_of(const ModelArguments& settings) {
  std::string text = settings.text(kSize);
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  std::string_view rest = text;
  if (text.empty()) return {};
  const std::int64_t left = take_number(rest, kSize, text);
  if (left < 0) return {};
  std::string layers = settings.text(kLayers);
  std::erase(layers, ' ');
  return {.keys = left + 1, .layers = layers_of(layers, settings.layers())};
}

void set_window(const Window& window, ModelArguments& settings) {
  if (window.keys == 0 || std::ranges::find(window.layers, true) == window.layers.end()) return;
  settings.set(kSize, fmt::format("{},0", window.keys - 1));
  if (std::ranges::find(window.layers, false) == window.layers.end()) return;
  std::string list;
  for (auto run = window.layers.begin(); run != window.layers.end();) {
    const auto end = std::find(run, window.layers.end(), !*run);
    list += fmt::format("{}[{}]*{}", list.empty() ? "" : "+", *run ? 1 : 0, end - run);
    run = end;
  }
  settings.set(kLayers, list);
}

}  // namespace phalanx::hugging_face
