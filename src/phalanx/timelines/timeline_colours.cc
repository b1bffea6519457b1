#include "phalanx/timelines/timeline_colours.h"

#include <fmt/core.h>

#include "phalanx/base/error.h"
#include "phalanx/drawing/palette.h"

namespace phalanx {
namespace {

// Fused and split backward passes have one colour: they differ in width.
struct PassColour {
  char letter;  // of the style class
  Shades shades;
};

PassColour colour_of(ActionKind pass) {
  PHALANX_CHECK(is_pass(pass), "action {} is no pass", static_cast<int>(pass));
  switch (pass) {
    case ActionKind::kForward:
      return {'f', kBlue};
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return {'b', kGreen};
    default:
      return {'w', kOrange};
  }
}

bool goes_up(const Action& pass, const Placement& placement) {
  return placement.direction(pass.chunk) != 0;
}

// From 0, dark, to 1, light.
double lightness(int chunk, int chunks, Stack stack) {
  if (stack != Stack::kOnly) return stack == Stack::kEncoder ? 0.0 : 0.8;
  return chunks == 1 ? 0.3 : static_cast<double>(chunk) / (chunks - 1);
}

}  // namespace

std::string_view PassStyles::of(const Action& pass, const Placement& placement, Stack stack) {
  const auto [letter, shades] = colour_of(pass.kind);
  const bool up = goes_up(pass, placement);
  const bool two_copies = placement.directions() > 1;
  const int chunks = two_copies ? 1 : placement.chunks();
  const int chunk = two_copies ? 0 : pass.chunk;
  std::string name = fmt::format("{}-{}-{:02}", letter, chunks, chunk);
  if (up) name = fmt::format("{}-up", letter);
  // The legend has styles in the order of their names: from dark to light.
  if (stack != Stack::kOnly) {
    name = fmt::format("{}-{}", letter, stack == Stack::kEncoder ? "1-encoder" : "2-decoder");
  }
  auto [style, is_new] = used_[pass.kind].try_emplace(name);
  if (is_new) {
    style->second = {
        .name = name,
        .colour = up ? std::string(shades.dark)
                     : mixed(shades.strong, shades.light, lightness(chunk, chunks, stack)),
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
