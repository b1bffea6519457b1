#include "phalanx/timelines/timeline_colours.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Colour = std::array<int, 3>;  // red, green, blue

struct Palette {
  char letter;  // of the class; fused and split backward passes share a colour, not a width
  Colour first, last, up;
};

const Palette& palette_of(ActionKind pass) {
  // Black digits stand out on the first two (contrast 5 and more), white ones on the third.
  PHALANX_CHECK(is_pass(pass), "action {} is no pass", static_cast<int>(pass));
  static constexpr Palette kForward = {
      'f', {0x5b, 0x92, 0xe5}, {0xcf, 0xdf, 0xfa}, {0x23, 0x53, 0xa0}};
  static constexpr Palette kBackward = {
      'b', {0x57, 0xb0, 0x68}, {0xcd, 0xec, 0xd3}, {0x1f, 0x6b, 0x30}};
  static constexpr Palette kWeight = {
      'w', {0xf0, 0x93, 0x3c}, {0xfd, 0xdf, 0xbe}, {0xa3, 0x4a, 0x00}};
  switch (pass) {
    case ActionKind::kForward:
      return kForward;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return kBackward;
    default:
      return kWeight;
  }
}

bool goes_up(const Action& pass, const Placement& placement) {
  return placement.direction(pass.chunk) != 0;
}

// A single chunk has a shade between the two.
double lightness(int chunk, int chunks, Stack stack) {
  if (stack != Stack::kOnly) return stack == Stack::kEncoder ? 0.0 : 0.8;
  return chunks == 1 ? 0.3 : static_cast<double>(chunk) / (chunks - 1);
}

std::string hexadecimal(const Colour& from, const Colour& to, double share) {
  std::string text = "#";
  for (std::size_t i = 0; i < from.size(); ++i) {
    text += fmt::format("{:02x}", std::lround(from[i] + share * (to[i] - from[i])));
  }
  return text;
}

}  // namespace

std::string_view PassStyles::of(const Action& pass, const Placement& placement, Stack stack) {
  const Palette& palette = palette_of(pass.kind);
  const bool up = goes_up(pass, placement);
  const bool two_copies = placement.directions() > 1;
  const int chunks = two_copies ? 1 : placement.chunks();
  const int chunk = two_copies ? 0 : pass.chunk;
  std::string name = fmt::format("{}-{}-{:02}", palette.letter, chunks, chunk);
  if (up) name = fmt::format("{}-up", palette.letter);
  // In the order of their lightness, as the legend shows them.
  if (stack != Stack::kOnly) {
    name =
        fmt::format("{}-{}", palette.letter, stack == Stack::kEncoder ? "1-encoder" : "2-decoder");
  }
  auto [style, is_new] = used_[pass.kind].try_emplace(name);
  if (is_new) {
    style->second = {
        .name = name,
        .colour = up ? hexadecimal(palette.up, palette.up, 0.0)
                     : hexadecimal(palette.first, palette.last, lightness(chunk, chunks, stack)),
        .is_up = up,
        .is_one_of_many = chunks > 1,
        .stack = stack};
  }
  return style->second.name;
}

std::string_view PassStyles::digits_of(const Action& pass, const Placement& placement) {
  return goes_up(pass, placement) ? "digits up" : "digits";
}

std::string PassStyles::rules() const {
  std::map<std::string_view, std::string_view> colours;  // kinds may share a class
  for (const auto& [kind, styles] : used_) {
    for (const auto& [name, style] : styles) colours[name] = style.colour;
  }
  std::string rules;
  for (const auto& [name, colour] : colours) rules += fmt::format(".{}{{fill:{}}}\n", name, colour);
  return rules;
}

}  // namespace phalanx
