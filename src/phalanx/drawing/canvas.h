#pragma once
// The shapes of an SVG picture, written one after the other. Lengths are pixels, y grows downwards;
// colours and strokes are those of style classes.

#include <span>
#include <string>
#include <string_view>

#include "phalanx/drawing/axis_scale.h"

namespace phalanx {

// The title and description of a picture for people who hear the page.
struct CanvasCaption {
  std::string title = {};
  std::string description = {};
};

class Canvas {
 public:
  // Lengths are written with so many decimals at most.
  explicit Canvas(int decimals = 2) : decimals_(decimals) {}

  // A `tip` is shown while the pointer rests on the rectangle.
  void rectangle(std::string_view style, double x, double y, double width, double height,
                 std::string_view tip = "");
  void line(std::string_view style, double x1, double y1, double x2, double y2);
  void circle(std::string_view style, double x, double y, double radius);
  // `y` is the line on which letters stand. The style decides whether `x` is the begin, the middle
  // or the end of the text.
  void text(std::string_view style, double x, double y, std::string_view text);

  // Straight lines from point to point. `name` is for the page's script: data-name.
  void begin_curve(std::string_view style, std::string_view name);
  void curve_to(double x, double y);
  void end_curve();

  // A closed path of horizontal and vertical lines.
  void begin_path(std::string_view style, double x, double y);
  void horizontal_to(double x);
  void vertical_to(double y);
  void end_path();

  // A horizontal axis from `left` to `right`, with the labels of its ticks below.
  void axis(const AxisScale& scale, std::span<const AxisTick> ticks, double left, double right,
            double y);

  // The picture as a document on white ground. `rules` are those of the style classes, in addition
  // to the common ones; `definitions` are what the rules refer to.
  std::string document(double width, double height, std::string_view rules,
                       std::string_view definitions, const CanvasCaption& caption = {}) const;
  // The picture as a part of a page, without a ground. The rules hold only within elements of the
  // class `scope`.
  std::string fragment(double width, double height, std::string_view rules,
                       std::string_view definitions, std::string_view scope) const;
  // The shapes in an <svg> with these attributes, whose styles are the page's.
  std::string element(std::string_view attributes) const;

 private:
  std::string pixels(double length) const;
  std::string opening(double width, double height) const;

  int decimals_;
  std::string body_;
};

// The entries of a legend, from left to right; an entry that does not fit begins a new line.
class Legend {
 public:
  static constexpr double kLineHeight = 20.0;

  // Lines go from `left` to `right`; the first begins at `top`.
  Legend(Canvas& canvas, double left, double right, double top)
      : canvas_(canvas), left_(left), right_(right), x_(left), y_(top) {}

  // Rectangles of these styles side by side, and what they mean.
  void add(std::span<const std::string> styles, double width, std::string_view text);
  void add(const std::string& style, std::string_view text) { add({&style, 1}, 13.0, text); }
  // Where the last line ends.
  double bottom() const { return y_ + kLineHeight; }

 private:
  Canvas& canvas_;
  double left_, right_, x_, y_;
};

// The definition of a pattern of slanted lines, for the rule "fill:url(#id)".
std::string hatching(std::string_view id, std::string_view ground, std::string_view lines);

}  // namespace phalanx
