#include "phalanx/drawing/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/drawing/markup.h"
#include "phalanx/drawing/palette.h"

namespace phalanx {
namespace {

template <typename... Args>
void append(std::string& body, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(body), format, std::forward<Args>(args)...);
}

std::string common_rules() {
  return fmt::format(
      "text{{fill:{};font-size:12px}}\n.title{{font-size:14px;font-weight:bold}}\n"
      ".base{{stroke:{};stroke-width:0.6}}\n.grid{{stroke:{};stroke-width:0.6}}\n"
      ".label{{text-anchor:end}}\n.soft{{fill:{}}}\n"
      ".tick{{font-size:10px;fill:{};text-anchor:middle}}\n"
      ".digits{{font-size:11px;fill:#111111;text-anchor:middle;pointer-events:none}}\n",
      kInk, kRule, kGrid, kGrey.dark, kGrey.dark);
}

}  // namespace

std::string Canvas::pixels(double length) const { return short_number(length, decimals_); }

void Canvas::rectangle(std::string_view style, double x, double y, double width, double height,
                       std::string_view tip) {
  append(body_, R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}")", style, pixels(x),
         pixels(y), pixels(width), pixels(height));
  body_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escape_markup(tip));
}

void Canvas::line(std::string_view style, double x1, double y1, double x2, double y2) {
  append(body_, "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style, pixels(x1),
         pixels(y1), pixels(x2), pixels(y2));
}

void Canvas::circle(std::string_view style, double x, double y, double radius) {
  append(body_, "<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", style, pixels(x),
         pixels(y), pixels(radius));
}

void Canvas::text(std::string_view style, double x, double y, std::string_view text) {
  append(body_, "<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", style, pixels(x), pixels(y),
         escape_markup(text));
}

void Canvas::begin_curve(std::string_view style, std::string_view name) {
  append(body_, "<polyline class=\"{}\" data-name=\"{}\" points=\"", style, escape_markup(name));
}

void Canvas::curve_to(double x, double y) { append(body_, "{},{} ", pixels(x), pixels(y)); }
void Canvas::end_curve() { body_ += "\"/>\n"; }

void Canvas::begin_path(std::string_view style, double x, double y) {
  append(body_, R"(<path class="{}" d="M{} {})", style, pixels(x), pixels(y));
}

void Canvas::horizontal_to(double x) { body_ += "H" + pixels(x); }
void Canvas::vertical_to(double y) { body_ += "V" + pixels(y); }
void Canvas::end_path() { body_ += "Z\"/>\n"; }

void Canvas::axis(const AxisScale& scale, std::span<const AxisTick> ticks, double left,
                  double right, double y) {
  line("base", left, y, right, y);
  for (const AxisTick& tick : ticks) {
    const double x = left + (right - left) * scale.place(tick.value);
    line("base", x, y, x, y + 4.0);
    text("tick", x, y + 15.0, tick.label);
  }
}

std::string Canvas::element(std::string_view attributes) const {
  return fmt::format("<svg {}>\n{}</svg>\n", attributes, body_);
}

std::string Canvas::opening(double width, double height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\"",
      pixels(width), pixels(height));
}

std::string Canvas::document(double width, double height, std::string_view rules,
                             std::string_view definitions, const CanvasCaption& caption) const {
  std::string attributes, words;
  if (!caption.title.empty()) {
    attributes = " role=\"img\" aria-labelledby=\"title description\"";
    words = fmt::format("<title id=\"title\">{}</title>\n<desc id=\"description\">{}</desc>\n",
                        escape_markup(caption.title), escape_markup(caption.description));
  }
  return fmt::format(
      "{}{}>\n{}<style>\n{}{}</style>\n{}<rect width=\"100%\" height=\"100%\" "
      "fill=\"#ffffff\"/>\n{}</svg>\n",
      opening(width, height), attributes, words, common_rules(), rules, definitions, body_);
}

std::string Canvas::fragment(double width, double height, std::string_view rules,
                             std::string_view definitions, std::string_view scope) const {
  std::string scoped;
  const std::string all = common_rules() + std::string(rules);
  for (std::string_view rest = all; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    append(scoped, ".{} {}\n", scope, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return fmt::format("{}>\n<style>\n{}</style>\n{}{}</svg>\n", opening(width, height), scoped,
                     definitions, body_);
}

void Legend::add(std::span<const std::string> styles, double width, std::string_view text) {
  const double swatches = width * static_cast<double>(styles.size());
  const double space = styles.empty() ? 0.0 : 5.0;
  const double whole = swatches + space + text_width(text);
  if (x_ > left_ && x_ + whole > right_) {
    x_ = left_;
    y_ += kLineHeight;
  }
  double x = x_;
  for (const std::string& style : styles) {
    canvas_.rectangle(style, x, y_, width, 13.0);
    x += width;
  }
  canvas_.text("legend", x + space, y_ + 11.0, text);
  x_ += whole + 14.0;
}

std::string hatching(std::string_view id, std::string_view ground, std::string_view lines) {
  return fmt::format(
      "<defs><pattern id=\"{}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"{}\"/>"
      "<rect width=\"2\" height=\"5\" fill=\"{}\"/></pattern></defs>\n",
      id, ground, lines);
}

}  // namespace phalanx
