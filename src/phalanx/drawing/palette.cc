#include "phalanx/drawing/palette.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>

namespace phalanx {

std::string mixed(std::string_view from, std::string_view to, double share) {
  const auto part = [](std::string_view colour, std::size_t i) {
    return std::stoi(std::string(colour.substr(1 + 2 * i, 2)), nullptr, 16);
  };
  std::string colour = "#";
  for (std::size_t i = 0; i < 3; ++i) {
    const int begin = part(from, i);
    colour += fmt::format("{:02x}", std::lround(begin + share * (part(to, i) - begin)));
  }
  return colour;
}

// The colours of curves are those of Okabe and Ito, which people of any colour vision tell apart,
// darker or lighter where the ground asks for it.
const std::string_view kPageColours = R"css(
:root{color-scheme:light dark;--ground:#fff;--raised:#f6f7f9;--ink:#1b1f24;--soft:#59636e;
--rule:#d8dde3;--grid:#e8ebef;--c0:#0068a8;--c1:#c74e00;--c2:#00805e;--c3:#b0558a;--c4:#a87200;
--c5:#2f8fc4;--c6:#6b5b95;--c7:#57606a;--b0:#0072b2;--b1:#56b4e9;--b2:#009e73;--b3:#d9a300;
--b4:#d55e00;--b5:#cc79a7;--b6:#8c8c8c;--b7:#cdd3da;--b8:#6f4fa8;--b9:#a5673f;--bad:#b3261e;--good:#00704f}
@media screen and (prefers-color-scheme:dark){:root{--ground:#14171b;--raised:#1d2126;--ink:#e7eaee;
--soft:#a2abb5;--rule:#353b43;--grid:#282d34;--c0:#5cb3ec;--c1:#ff8a4c;--c2:#3ec79b;--c3:#e59ac6;
--c4:#e8b53a;--c5:#9bd2f5;--c6:#b9a7e6;--c7:#b4bcc6;--b6:#8d959e;--b7:#515a64;--b8:#a98be0;--b9:#d29a6e;--bad:#ff8a80;
--good:#4fd1a5}}
@media print{:root{color-scheme:light;--raised:#f3f3f3;--ink:#000;--soft:#444;--rule:#bbb;--grid:#ddd}}
)css";

}  // namespace phalanx
