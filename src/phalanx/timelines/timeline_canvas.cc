#include "phalanx/timelines/timeline_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/timelines/timeline_layout.h"

namespace phalanx {
namespace {

std::string pixels(double length) { return short_number(length, 2); }

// The attributes of a picture that is told by its words, and these.
std::pair<std::string, std::string> spoken(const CanvasCaption& caption) {
  if (caption.title.empty()) return {};
  return {" role=\"img\" aria-labelledby=\"title description\"",
          fmt::format("<title id=\"title\">{}</title>\n<desc id=\"description\">{}</desc>\n",
                      escaped_for_svg(caption.title), escaped_for_svg(caption.description))};
}

}  // namespace

void TimelineCanvas::rectangle(std::string_view style, double x, double y, double width,
                               double height, std::string_view tip) {
  fmt::format_to(std::back_inserter(body_),
                 R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}")", style, pixels(x),
                 pixels(y), pixels(width), pixels(height));
  body_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped_for_svg(tip));
}

void TimelineCanvas::line(std::string_view style, double x1, double y1, double x2, double y2) {
  fmt::format_to(std::back_inserter(body_),
                 "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style,
                 pixels(x1), pixels(y1), pixels(x2), pixels(y2));
}

void TimelineCanvas::text(std::string_view style, double x, double y, std::string_view text) {
  fmt::format_to(std::back_inserter(body_), "<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n",
                 style, pixels(x), pixels(y), escaped_for_svg(text));
}

void TimelineCanvas::begin_path(std::string_view style, double x, double y) {
  fmt::format_to(std::back_inserter(body_), R"(<path class="{}" d="M{} {})", style, pixels(x),
                 pixels(y));
}

void TimelineCanvas::across_to(double x) { body_ += "H" + pixels(x); }
void TimelineCanvas::down_to(double y) { body_ += "V" + pixels(y); }
void TimelineCanvas::end_path() { body_ += "Z\"/>\n"; }

std::string TimelineCanvas::document(double width, double height, std::string_view rules,
                                     std::string_view definitions,
                                     const CanvasCaption& caption) const {
  const auto [attributes, words] = spoken(caption);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\"{5}>\n"
      "{6}<style>\n{2}</style>\n{3}<rect width=\"100%\" height=\"100%\" "
      "fill=\"#ffffff\"/>\n{4}</svg>\n",
      pixels(width), pixels(height), rules, definitions, body_, attributes, words);
}

std::string TimelineCanvas::fragment(double width, double height, std::string_view rules,
                                     std::string_view definitions, std::string_view scope) const {
  std::string scoped;
  while (!rules.empty()) {
    const std::size_t end = std::min(rules.find('\n'), rules.size());
    scoped += fmt::format(".{} {}\n", scope, rules.substr(0, end));
    rules.remove_prefix(std::min(end + 1, rules.size()));
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\">\n"
      "<style>\n{2}</style>\n{3}{4}</svg>\n",
      pixels(width), pixels(height), scoped, definitions, body_);
}

std::string escaped_for_svg(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

}  // namespace phalanx
