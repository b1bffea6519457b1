#pragma once
// A line chart as inline SVG: axes with round ticks, curves with their names at their ends. Colours
// are style classes, which the page defines for light, dark and paper; so are letters and lines.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/drawing/charts_scale.h"
#include "phalanx/drawing/charts_series.h"

namespace phalanx {

struct ChartCurve {
  std::string name = {};  // at its end; empty: none
  std::vector<ChartPoint> points = {};
  int colour = 0;          // classes c0 ... c7
  bool is_faint = false;   // what a stronger curve is the mean of
  bool has_marks = false;  // a dot at each point
};

// A vertical line, with a word at its top.
struct ChartMark {
  double x = 0;
  std::string name;
};

struct ChartSize {
  double width = 440;
  double height = 230;
};

struct Chart {
  std::string title;  // for people who hear the page
  std::string x_name = "iteration";
  bool logarithmic = false;
  bool from_zero = false;
  double shown_factor = 1;        // of what is shown of values: 100 for percent
  bool has_whole_values = false;  // ticks without fractions, as those of iterations
  std::vector<ChartCurve> curves = {};
  std::vector<ChartMark> marks = {};
  // Where values beyond are cut off: a peak that would flatten everything else. 0: nowhere.
  double most_shown = 0;

  bool empty() const;
};

// Names and values are escaped.
std::string to_svg(const Chart& chart, const ChartSize& size);

// How many columns of bins such a chart shows.
std::size_t columns_of(const ChartSize& size);

// As text between tags or within an attribute; what is no UTF-8, or no letter of a page, is
// replaced.
std::string escaped_for_page(std::string_view text);

}  // namespace phalanx
