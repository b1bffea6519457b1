#include "phalanx/drawing/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/markup.h"

namespace phalanx {
namespace {

// Pixels.
constexpr double kTop = 12.0;
constexpr double kBottom = 34.0;  // ticks and the axis' name
constexpr double kFontSize = 11.5;
constexpr double kLine = 13.0;  // the least distance of names
constexpr double kTickDistance = 38.0;
constexpr std::size_t kLongestName = 22;

double width_of(std::string_view text) { return text_width(text, kFontSize); }

// A long name loses its middle: names of runs differ at their ends.
std::string fitting(const std::string& name) {
  if (name.size() <= kLongestName) return name;
  // No cut is within a letter of several bytes.
  const auto is_inner = [&](std::size_t i) { return (name[i] & 0xC0) == 0x80; };
  std::size_t left = kLongestName / 2;
  std::size_t right = name.size() - kLongestName / 2 + 1;
  while (left > 0 && is_inner(left)) --left;
  while (right < name.size() && is_inner(right)) ++right;
  return name.substr(0, left) + "…" + name.substr(right);
}

class ChartDrawing {
 public:
  ChartDrawing(const LineChart& chart, const ChartSize& size) : chart_(chart), size_(size) {
    measure();
  }

  std::string draw() {
    draw_axes();
    for (const ChartMark& mark : chart_.marks) draw_mark(mark);
    for (const bool faint : {true, false}) {
      for (const ChartCurve& curve : chart_.curves) {
        if (curve.is_faint == faint) draw_curve(curve);
      }
    }
    draw_names();
    // The page's script reads the data.
    return canvas_.element(fmt::format(
        R"(class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" data-x="{} {}" )"
        R"(data-y="{} {}" data-log="{}" data-factor="{}" data-box="{:.1f} {} {:.1f} {}" )"
        R"(data-x-name="{}")",
        size_.width, size_.height, escape_markup(chart_.title), x_.low, x_.high, y_.low, y_.high,
        y_.logarithmic ? 1 : 0, chart_.shown_factor, left_, kTop, right_, bottom_,
        escape_markup(chart_.x_name)));
  }

 private:
  void measure() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double x_least = kInfinity, x_most = -kInfinity, y_least = kInfinity, y_most = -kInfinity;
    for (const ChartCurve& curve : chart_.curves) {
      for (const ChartPoint& point : curve.points) {
        x_least = std::min(x_least, point.x);
        x_most = std::max(x_most, point.x);
        if (chart_.logarithmic && point.y <= 0) continue;
        y_least = std::min(y_least, point.y);
        y_most = std::max(y_most, point.y);
      }
    }
    if (y_least > y_most) y_least = y_most = 1;  // a logarithm of nothing
    y_ = scale_over(y_least, y_most, chart_.logarithmic, chart_.from_zero);
    if (x_least == x_most) {
      x_least -= 0.5;
      x_most += 0.5;
    }
    x_ = {x_least, x_most, false};
    double names = 0;
    for (const ChartCurve& curve : chart_.curves) {
      names = std::max(names, width_of(fitting(curve.name)));
    }
    double labels = 0;
    y_ticks_ = ticks(shown(y_), (size_.height - kTop - kBottom) / kTickDistance,
                     chart_.has_whole_values ? TickValues::kWhole : TickValues::kAny);
    for (const AxisTick& tick : y_ticks_) labels = std::max(labels, width_of(tick.label));
    left_ = std::max(34.0, labels + 10.0);
    right_ = size_.width - std::min(size_.width / 3, std::max(12.0, names + 8.0));
    bottom_ = size_.height - kBottom;
  }

  AxisScale shown(const AxisScale& scale) const {
    return {scale.low * chart_.shown_factor, scale.high * chart_.shown_factor, scale.logarithmic};
  }
  double across(double x) const { return left_ + (right_ - left_) * x_.place(x); }
  double down(double y) const { return bottom_ - (bottom_ - kTop) * y_.place(y); }

  void draw_axes() {
    for (const AxisTick& tick : y_ticks_) {
      const double y = down(tick.value / chart_.shown_factor);
      canvas_.line("grid", left_, y, right_, y);
      canvas_.text("tick y", left_ - 6, y, tick.label);
    }
    const double wanted = (right_ - left_) / (1.9 * kTickDistance);
    canvas_.axis(x_, ticks(x_, wanted, TickValues::kWhole), left_, right_, bottom_);
    canvas_.text("tick name", right_, size_.height - 4, chart_.x_name);
  }

  void draw_mark(const ChartMark& mark) {
    if (mark.x < x_.low || mark.x > x_.high) return;
    const double x = across(mark.x);
    canvas_.line("mark", x, kTop, x, bottom_);
    // No name is written over the one before: the line is enough.
    if (x < mark_names_end_) return;
    mark_names_end_ = x + 6.0 + width_of(mark.name);
    canvas_.text("tick mark-name", x + 3, kTop + 8, mark.name);
  }

  void draw_curve(const ChartCurve& curve) {
    if (curve.points.empty()) return;
    canvas_.begin_curve(fmt::format("curve c{}{}", curve.colour, curve.is_faint ? " faint" : ""),
                        curve.name);
    for (const ChartPoint& point : curve.points) canvas_.curve_to(across(point.x), down(point.y));
    canvas_.end_curve();
    // A curve of one point would not be seen.
    if (!curve.has_marks && curve.points.size() > 1) return;
    for (const ChartPoint& point : curve.points) {
      canvas_.circle(fmt::format("dot c{}", curve.colour), across(point.x), down(point.y), 2.4);
    }
  }

  // Names are at the ends of their curves, one below the other where they would overlap.
  void draw_names() {
    struct Name {
      const ChartCurve* curve;
      double y;
    };
    std::vector<Name> names;
    for (const ChartCurve& curve : chart_.curves) {
      if (!curve.name.empty() && !curve.points.empty()) {
        names.push_back({&curve, down(curve.points.back().y)});
      }
    }
    std::ranges::sort(names, {}, &Name::y);
    for (std::size_t i = 1; i < names.size(); ++i) {
      names[i].y = std::max(names[i].y, names[i - 1].y + kLine);
    }
    // Names that are now below the axis move up again.
    double floor = bottom_ - 2.0;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      name->y = std::min(name->y, floor);
      floor = name->y - kLine;
    }
    for (const Name& name : names) {
      canvas_.text(fmt::format("end c{}", name.curve->colour), right_ + 5, name.y,
                   fitting(name.curve->name));
    }
  }

  const LineChart& chart_;
  ChartSize size_;
  Canvas canvas_{1};
  AxisScale x_, y_;
  std::vector<AxisTick> y_ticks_;
  double left_ = 0, right_ = 0, bottom_ = 0;
  double mark_names_end_ = 0;
};

}  // namespace

bool LineChart::empty() const {
  return std::ranges::all_of(curves, [](const ChartCurve& curve) { return curve.points.empty(); });
}

std::string to_svg(const LineChart& chart, const ChartSize& size) {
  return chart.empty() ? std::string() : ChartDrawing(chart, size).draw();
}

std::size_t columns_of(const ChartSize& size) { return static_cast<std::size_t>(size.width * 0.7); }

}  // namespace phalanx
