#pragma once
// The shapes of an SVG picture, written one after the other. Lengths are pixels, y grows downwards;
// colours and strokes are those of style classes.

#include <string>
#include <string_view>

namespace phalanx {

// What a document says to people who hear it.
struct CanvasCaption {
  std::string title = {};
  std::string description = {};
};

class TimelineCanvas {
 public:
  // With a `tip`, which is shown where the pointer rests on it.
  void rectangle(std::string_view style, double x, double y, double width, double height,
                 std::string_view tip = "");
  void line(std::string_view style, double x1, double y1, double x2, double y2);
  // `y` is that of the line on which letters stand; whether `x` is their begin, middle or end is
  // the style's.
  void text(std::string_view style, double x, double y, std::string_view text);

  // A path: from a point straight to others, and closed.
  void begin_path(std::string_view style, double x, double y);
  void across_to(double x);
  void down_to(double y);
  void end_path();

  // The document, on white whatever the page's colour is: `rules` are those of the style classes,
  // `definitions` what they refer to.
  std::string document(double width, double height, std::string_view rules,
                       std::string_view definitions, const CanvasCaption& caption = {}) const;
  // The same as a part of a page, on the page's own ground: the rules hold within elements of the
  // class `scope` alone.
  std::string fragment(double width, double height, std::string_view rules,
                       std::string_view definitions, std::string_view scope) const;

 private:
  std::string body_;
};

// As text between tags or within an attribute.
std::string escaped_for_svg(std::string_view text);

}  // namespace phalanx
