#include "scaling_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace phalanx::bench {
namespace {

using Terms = std::array<double, 3>;

// What a, b and c are multiplied with.
Terms terms_of(const ScalingModel& model, int ranks, std::int64_t bytes, int cores) {
  const double share = model.shares_cores ? std::max(1.0, static_cast<double>(ranks) / cores) : 1.0;
  const double steps =
      model.is_logarithmic ? std::bit_width(static_cast<unsigned>(ranks - 1)) : ranks - 1;
  const double crossing = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {1.0, share * steps, share * crossing};
}

double product(const Terms& left, const Terms& right) {
  return left[0] * right[0] + left[1] * right[1] + left[2] * right[2];
}

// Solves for the coefficients that `used` has a bit for, by elimination of the normal equations;
// not finite where they are singular.
Terms least_squares(const std::vector<Terms>& rows, unsigned used) {
  std::array<std::array<double, 4>, 3> m{};
  std::array<double, 3> scale{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (const Terms& row : rows) scale[i] = std::max(scale[i], std::abs(row[i]));
    if (scale[i] == 0) scale[i] = 1;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if ((used >> i & 1) == 0) {
      m[i][i] = 1;
      continue;
    }
    for (const Terms& row : rows) {
      const double left = row[i] / scale[i];
      for (std::size_t j = 0; j < 3; ++j) {
        if ((used >> j & 1) != 0) m[i][j] += left * row[j] / scale[j];
      }
      m[i][3] += left;
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    std::size_t pivot = i;
    for (std::size_t k = i; k < 3; ++k) {
      if (std::abs(m[k][i]) > std::abs(m[pivot][i])) pivot = k;
    }
    std::swap(m[i], m[pivot]);
    for (std::size_t k = 0; k < 3; ++k) {
      if (k == i) continue;
      const double factor = m[k][i] / m[i][i];
      for (std::size_t j = i; j < 4; ++j) m[k][j] -= factor * m[i][j];
    }
  }
  return {m[0][3] / m[0][0] / scale[0], m[1][3] / m[1][1] / scale[1], m[2][3] / m[2][2] / scale[2]};
}

double squares(const std::vector<Terms>& rows, const Terms& coefficients) {
  double sum = 0;
  for (const Terms& row : rows) {
    const double error = product(row, coefficients) - 1;
    sum += error * error;
  }
  return sum;
}

}  // namespace

double ScalingModel::seconds(int ranks, std::int64_t bytes, int cores) const {
  return product(terms_of(*this, ranks, bytes, cores), {a, b, c});
}

ScalingModel fit_model(std::span<const ScalingCell> cells, int cores) {
  ScalingModel best;
  double least = std::numeric_limits<double>::infinity();
  for (const bool is_logarithmic : {true, false}) {
    for (const bool shares_cores : {false, true}) {
      ScalingModel model{.is_logarithmic = is_logarithmic, .shares_cores = shares_cores};
      std::vector<Terms> rows;  // over the measured time: errors are relative
      for (const ScalingCell& cell : cells) {
        Terms row = terms_of(model, cell.ranks, cell.bytes, cores);
        for (double& term : row) term /= cell.seconds;
        rows.push_back(row);
      }
      for (unsigned used = 1; used < 8; ++used) {
        const Terms found = least_squares(rows, used);
        const bool is_possible = std::ranges::all_of(
            found, [](double value) { return std::isfinite(value) && value >= 0; });
        if (!is_possible || squares(rows, found) >= least) continue;
        least = squares(rows, found);
        model.a = found[0], model.b = found[1], model.c = found[2];
        best = model;
      }
    }
  }
  std::vector<double> errors;
  for (const ScalingCell& cell : cells) {
    const double predicted = best.seconds(cell.ranks, cell.bytes, cores);
    errors.push_back(std::abs(predicted / cell.seconds - 1));
  }
  std::ranges::sort(errors);
  best.median_error = errors[errors.size() / 2];
  best.worst_error = errors.back();
  return best;
}

}  // namespace phalanx::bench
