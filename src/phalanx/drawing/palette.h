#pragma once
// The colours of all pictures: shades for those that have a white ground of their own, and CSS
// variables for those that stand on a page, which may be dark.

#include <string>
#include <string_view>

namespace phalanx {

// Black digits can be read on the first two (contrast 4.5 and more), white digits on the third.
struct Shades {
  std::string_view strong, light, dark;
};
inline constexpr Shades kBlue = {"#5b92e5", "#cfdffa", "#2353a0"};    // forward, parameters
inline constexpr Shades kGreen = {"#57b068", "#cdecd3", "#1f6b30"};   // backward, optimizer
inline constexpr Shades kOrange = {"#f0933c", "#fddfbe", "#a34a00"};  // gradients of weights
inline constexpr Shades kPurple = {"#8f76bd", "#cdbfe3", "#5b4390"};  // held for passes
inline constexpr Shades kYellow = {"#e3cf57", "#f5edbd", "#6f6200"};  // messages
inline constexpr Shades kRed = {"#e08585", "#f6d3d3", "#9c3d3d"};     // files
inline constexpr Shades kGrey = {"#9a9a9a", "#d2d2d2", "#555555"};    // anything else

inline constexpr std::string_view kInk = "#222222";   // of texts
inline constexpr std::string_view kRule = "#bbbbbb";  // of axes
inline constexpr std::string_view kGrid = "#e4e4e4";

// `share` of the way from one colour ("#rrggbb") to another.
std::string mixed(std::string_view from, std::string_view to, double share);

// The CSS variables of a page, for light and dark screens and for paper: --ground, --ink and so on,
// --c0 to --c7 of curves, --b0 to --b9 of bars.
extern const std::string_view kPageColours;

}  // namespace phalanx
