#include "scaling_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "phalanx/drawing/axis_scale.h"
#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/palette.h"
#include "scaling_cells.h"

namespace phalanx::bench {
namespace {

constexpr double kMargin = 16, kAxis = 46, kWidth = 190, kHeight = 150, kGap = 26;
constexpr double kTop = 64;
const std::array<Shades, 6> kShades = {kBlue, kGreen, kOrange, kPurple, kRed, kGrey};

std::string size_name(long bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

std::string rules() {
  std::string text = ".curve{fill:none;stroke-width:1.6}\n.side{text-anchor:end;font-size:10px}\n";
  for (std::size_t i = 0; i < kShades.size(); ++i) {
    text += fmt::format(".w{0}{{fill:{1}}}\n.l{0}{{stroke:{1}}}\n", i, kShades[i].strong);
  }
  return text;
}

class Panels {
 public:
  Panels(std::span<const ScalingCell> cells, const std::vector<std::string>& ways)
      : cells_(cells), ways_(ways) {}

  std::string document() {
    canvas_.text("title", kMargin, 26, "Milliseconds of a collective, by ranks on one machine");
    Legend legend(canvas_, kMargin, width(), 36);
    for (std::size_t i = 0; i < ways_.size(); ++i) legend.add(fmt::format("w{}", i), ways_[i]);
    for (std::size_t column = 0; column < scaling::kSizes.size(); ++column) {
      const AxisScale scale = scale_of(scaling::kSizes[column]);
      for (std::size_t row = 0; row < scaling::kOperations.size(); ++row) {
        draw(scale, column, row);
      }
    }
    const double height =
        kTop + kGap + static_cast<double>(scaling::kOperations.size()) * (kHeight + 2 * kGap);
    return canvas_.document(
        width(), height, rules(), "",
        {.title = "Time of collectives by number of ranks",
         .description = "A panel for each operation and size, a curve for each way."});
  }

 private:
  static double width() {
    return kMargin + static_cast<double>(scaling::kSizes.size()) * (kAxis + kWidth) + kMargin;
  }

  // The same for all operations of a size.
  AxisScale scale_of(long bytes) const {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const ScalingCell& cell : cells_) {
      if (cell.bytes != bytes) continue;
      least = std::min(least, cell.seconds * 1e3);
      most = std::max(most, cell.seconds * 1e3);
    }
    if (most == 0) least = most = 1;
    return scale_over(least, most, true, false);
  }

  void draw(const AxisScale& scale, std::size_t column, std::size_t row) {
    const double left = kMargin + kAxis + static_cast<double>(column) * (kAxis + kWidth);
    const double top = kTop + kGap + static_cast<double>(row) * (kHeight + 2 * kGap);
    const long bytes = scaling::kSizes[column];
    const std::string operation = scaling::kOperations[row];
    const auto x_of = [&](int ranks) {
      const double span = std::log2(scaling::kRanks.back()) - 1;
      return left + 6 + (std::log2(ranks) - 1) / span * (kWidth - 18);
    };
    const auto y_of = [&](double ms) { return top + kHeight * (1 - scale.place(ms)); };
    canvas_.text("", left, top - 6, fmt::format("{}, {}", operation, size_name(bytes)));
    for (const AxisTick& tick : ticks(scale, 5)) {
      const double y = y_of(tick.value);
      canvas_.line("grid", left, y, left + kWidth - 6, y);
      canvas_.text("side", left - 4, y + 3, tick.label);
    }
    for (const int ranks : scaling::kRanks) {
      canvas_.text("tick", x_of(ranks), top + kHeight + 13, std::to_string(ranks));
    }
    canvas_.line("base", left, top + kHeight, left + kWidth - 6, top + kHeight);
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      std::vector<const ScalingCell*> found;
      for (const ScalingCell& cell : cells_) {
        if (cell.way == ways_[way] && cell.operation == operation && cell.bytes == bytes) {
          found.push_back(&cell);
        }
      }
      if (found.empty()) continue;
      std::ranges::sort(found, {}, &ScalingCell::ranks);
      canvas_.begin_curve(fmt::format("curve l{}", way), ways_[way]);
      for (const auto* cell : found) canvas_.curve_to(x_of(cell->ranks), y_of(cell->seconds * 1e3));
      canvas_.end_curve();
      for (const auto* cell : found) {
        canvas_.circle(fmt::format("w{}", way), x_of(cell->ranks), y_of(cell->seconds * 1e3), 2.2);
      }
    }
  }

  std::span<const ScalingCell> cells_;
  const std::vector<std::string>& ways_;
  Canvas canvas_;
};

}  // namespace

std::string scaling_picture(std::span<const ScalingCell> cells,
                            const std::vector<std::string>& ways) {
  return Panels(cells, ways).document();
}

}  // namespace phalanx::bench
