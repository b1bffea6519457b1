#pragma once
// Some of the axes of a grid of ranks (mesh/rank_grid.h): what a parameter is cut over, or what its
// gradient is summed over.

#include <cstdint>
#include <initializer_list>

#include "phalanx/mesh/rank_grid.h"

namespace phalanx {

class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) bits_ = static_cast<std::uint8_t>(bits_ | bit(axis));
  }

  constexpr bool has(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  // With this axis, too.
  constexpr AxisSet with(Axis axis) const {
    AxisSet more = *this;
    more.bits_ = static_cast<std::uint8_t>(bits_ | bit(axis));
    return more;
  }
  friend constexpr bool operator==(const AxisSet&, const AxisSet&) = default;

 private:
  static constexpr std::uint8_t bit(Axis axis) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(axis));
  }
  std::uint8_t bits_ = 0;
};

}  // namespace phalanx
