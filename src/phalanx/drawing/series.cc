#include "phalanx/drawing/series.h"

#include <algorithm>
#include <cmath>

namespace phalanx {

SeriesBin joined(const SeriesBin& left, const SeriesBin& right) {
  // If one of the two has both extremes, its order is that of the whole.
  bool least_comes_first = left.least <= right.least;
  if (left.least <= right.least && left.most >= right.most) {
    least_comes_first = left.least_comes_first;
  } else if (right.least < left.least && right.most > left.most) {
    least_comes_first = right.least_comes_first;
  }
  return {.x_first = left.x_first,
          .x_last = right.x_last,
          .least = std::min(left.least, right.least),
          .most = std::max(left.most, right.most),
          .sum = left.sum + right.sum,
          .count = left.count + right.count,
          .least_comes_first = least_comes_first};
}

void Series::add(double x, double y) {
  if (!std::isfinite(y) || !std::isfinite(x)) return;
  least_ = count_ == 0 ? y : std::min(least_, y);
  most_ = count_ == 0 ? y : std::max(most_, y);
  last_ = y;
  sum_ += y;
  ++count_;
  const SeriesBin point{.x_first = x, .x_last = x, .least = y, .most = y, .sum = y, .count = 1};
  if (!bins_.empty() && bins_.back().count < per_bin_) {
    bins_.back() = joined(bins_.back(), point);
    return;
  }
  if (bins_.size() == 2 * capacity_) halve();
  bins_.push_back(point);
}

void Series::halve() {
  bins_ = thinned(bins_, capacity_);
  per_bin_ *= 2;
}

double Series::median() const {
  if (bins_.empty()) return 0;
  std::vector<double> values;
  values.reserve(bins_.size());
  for (const SeriesBin& bin : bins_) values.push_back(bin.mean());
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<SeriesBin> thinned(std::span<const SeriesBin> bins, std::size_t columns) {
  std::vector<SeriesBin> fewer;
  const std::size_t group = std::max<std::size_t>(1, (bins.size() + columns - 1) / columns);
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (i % group == 0) {
      fewer.push_back(bins[i]);
    } else {
      fewer.back() = joined(fewer.back(), bins[i]);
    }
  }
  return fewer;
}

std::vector<ChartPoint> outline(std::span<const SeriesBin> bins) {
  std::vector<ChartPoint> points;
  for (const SeriesBin& bin : bins) {
    if (bin.count == 1 || bin.least == bin.most) {
      points.push_back({bin.x(), bin.least});
      continue;
    }
    const auto [first, second] =
        bin.least_comes_first ? std::pair(bin.least, bin.most) : std::pair(bin.most, bin.least);
    points.push_back({bin.x_first, first});
    points.push_back({bin.x_last, second});
  }
  return points;
}

std::vector<ChartPoint> means(std::span<const SeriesBin> bins) {
  std::vector<ChartPoint> points;
  for (const SeriesBin& bin : bins) points.push_back({bin.x(), bin.mean()});
  return points;
}

std::vector<ChartPoint> smoothed(std::span<const SeriesBin> bins) {
  const auto reach = std::ssize(bins) / 50;
  std::vector<ChartPoint> points;
  for (std::ptrdiff_t i = 0; i < std::ssize(bins); ++i) {
    double sum = 0;
    double weights = 0;
    const auto end = std::min(std::ssize(bins) - 1, i + reach);
    for (std::ptrdiff_t k = std::max<std::ptrdiff_t>(0, i - reach); k <= end; ++k) {
      const SeriesBin& bin = bins[static_cast<std::size_t>(k)];
      const double weight =
          1.0 - static_cast<double>(std::abs(k - i)) / static_cast<double>(reach + 1);
      sum += weight * bin.sum;
      weights += weight * static_cast<double>(bin.count);
    }
    points.push_back({bins[static_cast<std::size_t>(i)].x(), sum / weights});
  }
  return points;
}

std::vector<ChartPoint> thinned(std::span<const ChartPoint> points, std::size_t columns) {
  std::vector<ChartPoint> fewer;
  if (points.empty()) return fewer;
  const std::size_t spaces = std::max<std::size_t>(2, columns) - 1;
  const std::size_t step = std::max<std::size_t>(1, (points.size() - 1 + spaces - 1) / spaces);
  for (std::size_t i = 0; i + 1 < points.size(); i += step) fewer.push_back(points[i]);
  fewer.push_back(points.back());
  return fewer;
}

}  // namespace phalanx
