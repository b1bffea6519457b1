#pragma once
// A curve of any length in little memory: neighbouring points become one bin, which keeps their
// least, greatest and mean value. A run of ten million iterations is drawn from some thousand bins,
// and no peak is lost.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phalanx {

// Neighbouring points, one or more.
struct SeriesBin {
  double x_first = 0;
  double x_last = 0;
  double least = 0;
  double most = 0;
  double sum = 0;
  std::int64_t count = 0;
  bool least_comes_first = true;

  double x() const { return (x_first + x_last) / 2; }
  double mean() const { return sum / static_cast<double>(count); }
};

struct ChartPoint {
  double x = 0;
  double y = 0;
  friend bool operator==(const ChartPoint&, const ChartPoint&) = default;
};

// One bin of two neighbours.
SeriesBin joined(const SeriesBin& left, const SeriesBin& right);

class Series {
 public:
  // Keeps at most 2 * `bins` bins, and at least `bins` of as many points or more.
  explicit Series(std::size_t bins = 1024) : capacity_(bins) {}

  // Points come in order of x. A value that is not finite is left out.
  void add(double x, double y);

  bool empty() const { return bins_.empty(); }
  const std::vector<SeriesBin>& bins() const { return bins_; }
  std::int64_t count() const { return count_; }
  double sum() const { return sum_; }
  double last() const { return last_; }
  double mean() const { return sum_ / static_cast<double>(count_); }
  double least() const { return least_; }
  double most() const { return most_; }
  // The median of the bins' means; 0 where there are none.
  double median() const;

 private:
  void halve();

  std::size_t capacity_;
  std::int64_t per_bin_ = 1;
  std::vector<SeriesBin> bins_;
  std::int64_t count_ = 0;
  double sum_ = 0;
  double last_ = 0;
  double least_ = 0;
  double most_ = 0;
};

// At most `columns` bins.
std::vector<SeriesBin> thinned(std::span<const SeriesBin> bins, std::size_t columns);
// The points of the bins: of a bin of several points the least and the greatest, in their order.
std::vector<ChartPoint> outline(std::span<const SeriesBin> bins);
// The mean of each bin.
std::vector<ChartPoint> means(std::span<const SeriesBin> bins);
// The mean of each bin's neighbourhood, 4 % of the curve; near bins count more. Give all bins of a
// series, so that the curve is the same at every width of a page.
std::vector<ChartPoint> smoothed(std::span<const SeriesBin> bins);
// At most `columns` of the points (at least two, if there are two); the last one is kept.
std::vector<ChartPoint> thinned(std::span<const ChartPoint> points, std::size_t columns);

}  // namespace phalanx
