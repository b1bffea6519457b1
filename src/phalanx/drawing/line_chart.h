#pragma once
// A line chart as SVG within a page: axes with round ticks, curves with their names at their ends.
// The page's style classes decide colours, lines and fonts.

#include <string>
#include <vector>

#include "phalanx/drawing/axis_scale.h"
#include "phalanx/drawing/series.h"

namespace phalanx {

struct ChartCurve {
  std::string name = {};  // written at its end
  std::vector<ChartPoint> points = {};
  int colour = 0;          // classes c0 ... c7
  bool is_faint = false;   // raw values, whose mean is another curve
  bool has_marks = false;  // a dot at each point
};

// A vertical line with a word at its top.
struct ChartMark {
  double x = 0;
  std::string name;
};

struct ChartSize {
  double width = 440;
  double height = 230;
};

struct LineChart {
  std::string title;  // for people who hear the page instead of seeing it
  std::string x_name = "iteration";
  bool logarithmic = false;
  bool from_zero = false;
  double shown_factor = 1;        // values are multiplied by it in labels: 100 for percent
  bool has_whole_values = false;  // y has ticks without fractions; iterations always have
  std::vector<ChartCurve> curves = {};
  std::vector<ChartMark> marks = {};

  bool empty() const;
};

// Empty where there is nothing to draw. Names are escaped.
std::string to_svg(const LineChart& chart, const ChartSize& size);

// How many columns of bins such a chart shows.
std::size_t columns_of(const ChartSize& size);

}  // namespace phalanx
