#include "phalanx/drawing/charts_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

namespace phalanx {
namespace {

// Pixels.
constexpr double kTop = 12.0;
constexpr double kBottom = 34.0;  // ticks and the axis' name
constexpr double kLetter = 6.6;   // the mean width of one
constexpr double kLine = 13.0;    // the least distance of names
constexpr double kTickDistance = 38.0;
constexpr std::size_t kLongestName = 22;

std::string pixels(double length) {
  std::string text = fmt::format("{:.1f}", length);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

double text_width(std::string_view text) { return kLetter * static_cast<double>(text.size()); }

// The middle is left out where names are told apart at their ends.
std::string fitting(const std::string& name) {
  if (name.size() <= kLongestName) return name;
  // Not within a letter of several bytes.
  const auto is_inner = [&](std::size_t i) { return (name[i] & 0xC0) == 0x80; };
  std::size_t left = kLongestName / 2;
  std::size_t right = name.size() - kLongestName / 2 + 1;
  while (left > 0 && is_inner(left)) --left;
  while (right < name.size() && is_inner(right)) ++right;
  return name.substr(0, left) + "…" + name.substr(right);
}

class Drawing {
 public:
  Drawing(const Chart& chart, const ChartSize& size) : chart_(chart), size_(size) { measure(); }

  std::string draw() {
    put(R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" data-x="{} {}" )"
        R"(data-y="{} {}" data-log="{}" data-factor="{}" data-box="{} {} {} {}" )"
        R"(data-x-name="{}">)",
        pixels(size_.width), pixels(size_.height), escaped_for_page(chart_.title), x_.low, x_.high,
        y_.low, y_.high, y_.logarithmic ? 1 : 0, chart_.shown_factor, pixels(left_), pixels(kTop),
        pixels(right_), pixels(bottom_), escaped_for_page(chart_.x_name));
    draw_axes();
    for (const ChartMark& mark : chart_.marks) draw_mark(mark);
    for (const bool faint : {true, false}) {
      for (const ChartCurve& curve : chart_.curves) {
        if (curve.is_faint == faint) draw_curve(curve);
      }
    }
    draw_names();
    return svg_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Args>(args)...);
  }

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
    if (chart_.most_shown > 0) y_most = std::min(y_most, std::max(chart_.most_shown, y_least));
    if (y_least > y_most) y_least = y_most = 1;  // a logarithm of nothing
    y_ = scale_over(y_least, y_most, chart_.logarithmic, chart_.from_zero);
    if (x_least == x_most) {
      x_least -= 0.5;
      x_most += 0.5;
    }
    x_ = {x_least, x_most, false};
    double names = 0;
    for (const ChartCurve& curve : chart_.curves) {
      names = std::max(names, text_width(fitting(curve.name)));
    }
    double labels = 0;
    y_ticks_ = ticks(shown(y_),
                     std::max(2, static_cast<int>((size_.height - kTop - kBottom) / kTickDistance)),
                     chart_.has_whole_values ? TickValues::kWhole : TickValues::kAny);
    for (const ChartTick& tick : y_ticks_) labels = std::max(labels, text_width(tick.label));
    left_ = std::max(34.0, labels + 10.0);
    right_ = size_.width - std::min(size_.width / 3, std::max(12.0, names + 8.0));
    bottom_ = size_.height - kBottom;
  }

  ChartScale shown(const ChartScale& scale) const {
    return {scale.low * chart_.shown_factor, scale.high * chart_.shown_factor, scale.logarithmic};
  }
  double across(double x) const { return left_ + (right_ - left_) * x_.place(x); }
  double down(double y) const { return bottom_ - (bottom_ - kTop) * y_.place(y); }

  void draw_axes() {
    for (const ChartTick& tick : y_ticks_) {
      const std::string y = pixels(down(tick.value / chart_.shown_factor));
      put(R"(<path class="grid" d="M{} {}H{}"/><text class="tick y" x="{}" y="{}" dy=".35em">{}</text>)",
          pixels(left_), y, pixels(right_), pixels(left_ - 6), y, tick.label);
    }
    put(R"(<path class="axis" d="M{} {}H{}"/>)", pixels(left_), pixels(bottom_), pixels(right_));
    const auto wanted = static_cast<int>((right_ - left_) / (1.9 * kTickDistance));
    for (const ChartTick& tick : ticks(x_, std::max(2, wanted), TickValues::kWhole)) {
      const std::string x = pixels(across(tick.value));
      put(R"(<path class="axis" d="M{} {}v4"/><text class="tick" x="{}" y="{}">{}</text>)", x,
          pixels(bottom_), x, pixels(bottom_ + 16), tick.label);
    }
    put(R"(<text class="tick name" x="{}" y="{}">{}</text>)", pixels(right_),
        pixels(size_.height - 4), escaped_for_page(chart_.x_name));
  }

  void draw_mark(const ChartMark& mark) {
    if (mark.x < x_.low || mark.x > x_.high) return;
    const double x = across(mark.x);
    put(R"(<path class="mark" d="M{} {}V{}"/>)", pixels(x), pixels(kTop), pixels(bottom_));
    // Where the name before reaches as far, the line tells as much.
    if (x < mark_names_end_) return;
    mark_names_end_ = x + 6.0 + text_width(mark.name);
    put(R"(<text class="tick mark-name" x="{}" y="{}">{}</text>)", pixels(x + 3), pixels(kTop + 8),
        escaped_for_page(mark.name));
  }

  void draw_curve(const ChartCurve& curve) {
    if (curve.points.empty()) return;
    put(R"(<polyline class="curve c{}{}" data-name="{}" points=")", curve.colour,
        curve.is_faint ? " faint" : "", escaped_for_page(curve.name));
    for (const ChartPoint& point : curve.points) {
      put("{},{} ", pixels(across(point.x)), pixels(down(point.y)));
    }
    svg_ += "\"/>";
    // A line of one point has no length.
    if (!curve.has_marks && curve.points.size() > 1) return;
    for (const ChartPoint& point : curve.points) {
      put(R"(<circle class="dot c{}" cx="{}" cy="{}" r="2.4"/>)", curve.colour,
          pixels(across(point.x)), pixels(down(point.y)));
    }
  }

  // At the ends of their curves, one below the other where they would overlap.
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
    // Up again from the floor.
    double floor = bottom_ - 2.0;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      name->y = std::min(name->y, floor);
      floor = name->y - kLine;
    }
    for (const Name& name : names) {
      put(R"(<text class="end c{}" x="{}" y="{}" dy=".35em">{}</text>)", name.curve->colour,
          pixels(right_ + 5), pixels(name.y), escaped_for_page(fitting(name.curve->name)));
    }
  }

  const Chart& chart_;
  ChartSize size_;
  std::string svg_;
  ChartScale x_, y_;
  std::vector<ChartTick> y_ticks_;
  double left_ = 0, right_ = 0, bottom_ = 0;
  double mark_names_end_ = 0;
};

// How many bytes of valid UTF-8 begin here; 0: none.
std::size_t letter_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC2 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return size;
}

}  // namespace

bool Chart::empty() const {
  return std::ranges::all_of(curves, [](const ChartCurve& curve) { return curve.points.empty(); });
}

std::string to_svg(const Chart& chart, const ChartSize& size) {
  return chart.empty() ? std::string() : Drawing(chart, size).draw();
}

std::size_t columns_of(const ChartSize& size) { return static_cast<std::size_t>(size.width * 0.7); }

std::string escaped_for_page(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string escaped;
  while (!text.empty()) {
    const std::size_t size = letter_bytes(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool is_control = (byte < 0x20 && text[0] != '\n' && text[0] != '\t') || byte == 0x7F;
    if (size == 0 || is_control) {
      escaped += kReplacement;
    } else if (text[0] == '&') {
      escaped += "&amp;";
    } else if (text[0] == '<') {
      escaped += "&lt;";
    } else if (text[0] == '>') {
      escaped += "&gt;";
    } else if (text[0] == '"') {
      escaped += "&quot;";
    } else if (text[0] == '\'') {
      escaped += "&#39;";
    } else {
      escaped += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return escaped;
}

}  // namespace phalanx
