#pragma once
// The minimum of a function of a few numbers that need not be smooth: steps along each axis, which
// become shorter where none helps (Hooke and Jeeves, 1961).

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace phalanx {

struct SearchAxis {
  double start = 0.0;
  double step = 0.1;  // the first
  double least = 0.0;
  double most = 1.0;
};

// The place; steps end at a thousandth of the first.
inline std::vector<double> pattern_search(
    const std::vector<SearchAxis>& axes,
    const std::function<double(const std::vector<double>&)>& value) {
  std::vector<double> place;
  for (const SearchAxis& axis : axes) place.push_back(axis.start);
  double best = value(place);
  const auto improves = [&](std::size_t i, double step) {
    std::vector<double> tried = place;
    tried[i] = std::clamp(tried[i] + step, axes[i].least, axes[i].most);
    const double reached = value(tried);
    if (reached >= best) return false;
    best = reached;
    place = std::move(tried);
    return true;
  };
  constexpr double kShortest = 1e-3;
  for (double scale = 1.0; scale >= kShortest;) {
    bool has_moved = false;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      has_moved |= improves(i, scale * axes[i].step) || improves(i, -scale * axes[i].step);
    }
    if (!has_moved) scale /= 2;
  }
  return place;
}

}  // namespace phalanx
