#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "phalanx/timelines/timeline_canvas.h"
#include "phalanx/timelines/timeline_colours.h"
#include "phalanx/timelines/timeline_drawing.h"
#include "phalanx/timelines/timeline_layout.h"

namespace phalanx {
namespace {

// Pixels.
constexpr double kMargin = 12.0;
constexpr double kLabelWidth = 56.0;  // "rank 0", to the left of the rows
constexpr double kPeakWidth = 44.0;   // the most activations held, to their right
constexpr double kMinWidth = 640.0;
constexpr double kMaxWidth = 1600.0;
constexpr double kPassWidth = 22.0;  // of a short pass, where the picture does not get too wide
constexpr double kRowHeight = 22.0;
constexpr double kLaneHeight = 16.0;
constexpr double kRowGap = 7.0;
constexpr double kTitleHeight = 26.0;
constexpr double kAxisHeight = 22.0;
constexpr double kFooterHeight = 17.0;
constexpr double kPictureGap = 18.0;
constexpr double kLegendHeight = 22.0;
constexpr double kTickDistance = 44.0;  // at least
constexpr double kDigitWidth = 6.4;
constexpr double kLetterWidth = 6.3;  // the mean of a text of the footer's size
constexpr double kTitleSize = 1.2;    // of it

constexpr std::string_view kRules = R"(.idle{fill:#ffffff;stroke:#d9d9d9;stroke-width:0.6}
.grid{stroke:#e4e4e4;stroke-width:0.6}
.pair{fill:none;stroke:#111111;stroke-width:1.8}
.update{fill:url(#hatch);stroke:#666666;stroke-width:0.6}
.needed{fill:#cdbfe3}
.held{fill:#8f76bd}
.base{stroke:#bbbbbb;stroke-width:0.6}
text{fill:#222222;font-size:12px}
.title{font-size:14px;font-weight:bold}
.label{text-anchor:end}
.tick{font-size:10px;fill:#555555;text-anchor:middle}
.axis{text-anchor:end}
.note{text-anchor:start}
.digits{font-size:11px;fill:#111111;text-anchor:middle;pointer-events:none}
.up{fill:#ffffff}
)";
constexpr std::string_view kHatch =
    "<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#e2e2e2\"/>"
    "<rect width=\"2\" height=\"5\" fill=\"#8c8c8c\"/></pattern></defs>\n";

// Broken at blanks where a line is longer than `most` letters.
std::vector<std::string> lines_of(std::string_view text, double most) {
  const auto letters = static_cast<std::size_t>(std::max(most, 1.0));
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t end = std::min(text.find('\n'), text.size());
    if (end > letters) {
      const std::size_t blank = text.rfind(' ', letters);
      end = blank == std::string_view::npos ? end : blank;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

double text_width(std::string_view text) { return kLetterWidth * static_cast<double>(text.size()); }

// A page has the pictures in three widths, of which it shows the one that fits: for a large window,
// a small one or paper, and a phone.
struct PageWidth {
  std::string_view style;
  double pixels;
};
constexpr std::array<PageWidth, 3> kPageWidths = {
    {{"for-window", 1190.0}, {"for-paper", 740.0}, {"for-phone", 362.0}}};
constexpr std::string_view kPageRules = R"(<style>
.timeline .for-paper,.timeline .for-phone{display:none}
.timeline .for-paper svg,.timeline .for-phone svg{max-width:100%;height:auto}
@media screen and (max-width:1229px){.timeline .for-window{display:none}.timeline .for-paper{display:block}}
@media screen and (max-width:699px){.timeline .for-paper{display:none}.timeline .for-phone{display:block}}
@media print{.timeline .for-window{display:none}.timeline .for-paper{display:block}}
@media screen and (prefers-color-scheme:dark){
.timeline .idle{fill:#1d2126;stroke:#3a414a}
.timeline .grid{stroke:#3a414a}
.timeline .pass{stroke:#14171b}
.timeline .pair{stroke:#e7eaee}
.timeline .base{stroke:#5b646e}
.timeline text{fill:#dfe3e8}
.timeline .tick{fill:#a2abb5}
.timeline .digits{fill:#111111}
.timeline .up{fill:#ffffff}
}
</style>
)";

bool is_update(ActionKind kind) {
  return kind == ActionKind::kReduceGradients || kind == ActionKind::kOptimizerStep ||
         kind == ActionKind::kGatherParameters;
}

class SvgDrawing {
 public:
  // `has_tips`: what rests under a pointer is named.
  SvgDrawing(std::span<const TimelinePicture> pictures, double most_width, bool has_tips = true)
      : pictures_(pictures), most_width_(most_width), has_tips_(has_tips) {}

  std::string document() {
    draw();
    return canvas_.document(width_, y_ + kMargin, rules("stroke:#ffffff;" + border()), kHatch);
  }
  // `style`: of the element around it, within one of the class "timeline".
  std::string fragment(std::string_view style) {
    draw();
    return canvas_.fragment(
        width_, y_ + kMargin,
        fmt::format("{}.{} .pass{{{}}}\n", rules("stroke:#ffffff"), style, border()),
        has_updates_ ? kHatch : "", "timeline");
  }

 private:
  void draw() {
    measure();
    for (const TimelinePicture& picture : pictures_) draw(picture);
    draw_legend();
  }

  std::string rules(std::string_view of_passes) const {
    return fmt::format("{}.pass{{{}}}\n", kRules, of_passes) + styles_.rules();
  }
  // Neighbours are told apart by their borders, which must not hide them where they are narrow.
  std::string border() const {
    return fmt::format("stroke-width:{}",
                       short_number(std::clamp(pass_width_ / 20.0, 0.05, 0.8), 2));
  }

  // The common scale, and how wide the document is.
  void measure() {
    double length = 0.0;
    double pass = 0.0;
    double text = 0.0;
    for (const TimelinePicture& picture : pictures_) {
      length = std::max(length, picture_length(picture));
      pass = std::max({pass, shortest_pass(picture), median_pass(picture) / 3.0});
      for (const std::string& line : title_lines(picture)) {
        text = std::max(text, kTitleSize * text_width(line));
      }
      for (const std::string& line : footer_lines(picture)) {
        text = std::max(text, text_width(line));
      }
      for (const auto& row : picture.timeline) {
        const HeldActivations most = most_held(held_activations(row));
        most_held_ = std::max(most_held_, most.until_weight_gradient);
      }
    }
    constexpr double kSides = 2.0 * kMargin + kLabelWidth + kPeakWidth;
    if (length <= 0.0) length = 1.0;
    scale_ = std::min(kPassWidth / pass, (most_width_ - kSides) / length);
    pass_width_ = scale_ * pass;
    width_ = std::clamp(kSides + std::max(scale_ * length, text - kLabelWidth),
                        std::min(kMinWidth, most_width_), most_width_);
  }

  std::vector<std::string> title_lines(const TimelinePicture& picture) const {
    return lines_of(picture.title, letters_across() / kTitleSize);
  }
  std::vector<std::string> footer_lines(const TimelinePicture& picture) const {
    return lines_of(picture.footer, letters_across());
  }
  double letters_across() const { return (most_width_ - 2.0 * kMargin) / kLetterWidth; }

  void draw(const TimelinePicture& picture) {
    if (y_ > kMargin) y_ += kPictureGap;
    for (const std::string& line : title_lines(picture)) {
      canvas_.text("title", kMargin, y_ + 14.0, line);
      y_ += kFooterHeight;
    }
    y_ += kTitleHeight - kFooterHeight;
    const double length = scale_ * picture_length(picture);
    const double row = kRowHeight + (picture.memory_lane ? kLaneHeight + 2.0 : 0.0) + kRowGap;
    const double bottom = y_ + row * static_cast<double>(picture.timeline.size());
    draw_rows(picture, row, length);
    y_ = bottom;
    draw_axis(picture, length);
    for (const std::string& line : footer_lines(picture)) {
      canvas_.text("footer", kMargin, y_ + 12.0, line);
      y_ += kFooterHeight;
    }
  }

  void draw_rows(const TimelinePicture& picture, double height, double length) {
    const std::vector<double> origins = row_origins(picture);
    const double step = tick_step(kTickDistance / scale_);
    for (std::size_t rank = 0; rank < picture.timeline.size(); ++rank) {
      const double y = y_ + height * static_cast<double>(rank);
      draw_label(picture, rank, y);
      canvas_.rectangle("idle", kLeft, y, length, kRowHeight);
      for (double time = step; scale_ * time < length; time += step) {
        canvas_.line("grid", kLeft + scale_ * time, y, kLeft + scale_ * time, y + kRowHeight);
      }
      draw_row(picture, rank, kLeft - scale_ * origins[rank], y);
      if (picture.memory_lane) {
        draw_lane(picture.timeline[rank], kLeft - scale_ * origins[rank], y + kRowHeight + 2.0,
                  length);
      }
    }
  }

  void draw_label(const TimelinePicture& picture, std::size_t rank, double y) {
    const Stack stack = stack_of(picture, rank);
    const bool is_only = stack == Stack::kOnly;
    canvas_.text("label", kLeft - 8.0, y + (is_only ? 15.5 : 10.5), fmt::format("rank {}", rank));
    if (!is_only) canvas_.text("tick axis", kLeft - 8.0, y + 20.5, name_of(stack));
  }

  // `x` is where time 0 is.
  void draw_row(const TimelinePicture& picture, std::size_t rank, double x, double y) {
    const auto& row = picture.timeline[rank];
    const Stack stack = stack_of(picture, rank);
    for (const TimedAction& timed : row) draw_cell(picture, timed, stack, x, y);
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      if (!row[i].action.paired) continue;
      has_pairs_ = true;
      canvas_.rectangle("pair", x + scale_ * row[i].begin + 0.5, y + 0.5,
                        scale_ * (row[i + 1].end - row[i].begin) - 1.0, kRowHeight - 1.0);
    }
  }

  std::string tip_of(const TimelinePicture& picture, const TimedAction& timed) const {
    if (!has_tips_) return {};
    const Action& action = timed.action;
    return fmt::format(
        "{}, {} to {}",
        is_pass(action.kind) ? pass_name(action, picture.placement) : to_string(action),
        short_number(timed.begin, 6), short_number(timed.end, 6));
  }

  void draw_cell(const TimelinePicture& picture, const TimedAction& timed, Stack stack, double x,
                 double y) {
    const Action& action = timed.action;
    const double left = x + scale_ * timed.begin;
    const double width = scale_ * (timed.end - timed.begin);
    const std::string tip = tip_of(picture, timed);
    if (is_update(action.kind) && width > 0.0) {
      has_updates_ = true;
      canvas_.rectangle("update", left, y, width, kRowHeight, tip);
    }
    if (!is_pass(action.kind)) return;
    const std::string style = fmt::format("pass {}", styles_.of(action, picture.placement, stack));
    canvas_.rectangle(style, left, y, width, kRowHeight, tip);
    const std::string number = fmt::format("{}", action.microbatch);
    if (kDigitWidth * static_cast<double>(number.size()) + 2.0 > width) return;
    canvas_.text(PassStyles::digits_of(action, picture.placement), left + width / 2.0, y + 15.0,
                 number);
  }

  // The activations held as two staircases, of which the one in front is the input gradient's.
  void draw_lane(const std::vector<TimedAction>& row, double x, double y, double length) {
    const std::vector<HeldActivations> held = held_activations(row);
    const double base = y + kLaneHeight;
    const double unit = kLaneHeight / std::max(most_held_, 1);
    const auto staircase = [&](std::string_view style, int HeldActivations::*level) {
      canvas_.begin_path(style, held.empty() ? x : x + scale_ * held.front().time, base);
      for (const HeldActivations& now : held) {
        canvas_.across_to(x + scale_ * now.time);
        canvas_.down_to(base - unit * (now.*level));
      }
      canvas_.down_to(base);
      canvas_.end_path();
    };
    const HeldActivations most = most_held(held);
    const bool differ = most.until_input_gradient != most.until_weight_gradient;
    if (held_differs(held)) staircase("needed", &HeldActivations::until_weight_gradient);
    staircase("held", &HeldActivations::until_input_gradient);
    canvas_.line("base", kLeft, base, kLeft + length, base);
    canvas_.text("peak", kLeft + length + 6.0, base - 3.0,
                 differ
                     ? fmt::format("{} / {}", most.until_input_gradient, most.until_weight_gradient)
                     : fmt::format("{}", most.until_input_gradient));
    has_lanes_ = true;
  }

  bool held_differs(const std::vector<HeldActivations>& held) {
    const bool differs = std::any_of(held.begin(), held.end(), [](const HeldActivations& level) {
      return level.until_input_gradient != level.until_weight_gradient;
    });
    has_needed_ = has_needed_ || differs;
    return differs;
  }

  void draw_axis(const TimelinePicture& picture, double length) {
    const double step = tick_step(kTickDistance / scale_);
    canvas_.line("base", kLeft, y_, kLeft + length, y_);
    for (int tick = 0; scale_ * step * tick <= length + 0.01; ++tick) {
      const double x = kLeft + scale_ * step * tick;
      canvas_.line("base", x, y_, x, y_ + 4.0);
      canvas_.text("tick", x, y_ + 14.0, fmt::format("{:g}", step * tick));
    }
    const std::string_view label = picture.unit.empty() ? "time" : std::string_view(picture.unit);
    canvas_.text("tick axis", kLeft - 8.0, y_ + 14.0, label);
    y_ += kAxisHeight;
    if (picture.aligned_to_first) {
      canvas_.text("tick note", kLeft, y_ + 8.0, "every rank from its own first pass");
      y_ += kFooterHeight;
    }
  }

  void draw_legend() {
    y_ += 8.0;
    legend_x_ = kMargin;
    bool has_chunks = false;
    bool has_up = false;
    bool has_stacks = false;
    for (const auto& [kind, styles] : styles_.used()) {
      std::vector<std::string> swatches;
      for (const auto& [name, style] : styles) {
        swatches.push_back(fmt::format("pass {}", name));
        has_chunks = has_chunks || style.is_one_of_many;
        has_up = has_up || style.is_up;
        has_stacks = has_stacks || style.stack != Stack::kOnly;
      }
      legend_item(swatches, kind == ActionKind::kBackward ? 20.0 : 11.0, description_of(kind));
    }
    if (has_chunks) legend_item({}, 0.0, "dark to light: a rank's chunks");
    if (has_stacks) legend_item({}, 0.0, "dark: encoder, light: decoder");
    if (has_up) legend_item({}, 0.0, "white digits: up, from the last rank");
    if (has_pairs_) legend_item({"pair"}, 22.0, "computed together");
    if (has_updates_) legend_item({"update"}, 16.0, "reduction, update");
    if (has_needed_) {
      legend_item({"held", "needed"}, 11.0, "activations held until b, until w");
    } else if (has_lanes_) {
      legend_item({"held"}, 11.0, "activations held");
    }
    y_ += kLegendHeight;
  }

  void legend_item(const std::vector<std::string>& swatches, double width, std::string_view text) {
    constexpr double kSwatchHeight = 13.0;
    constexpr double kSpace = 18.0;
    const double swatch_width = width * static_cast<double>(swatches.size());
    const double whole = swatch_width + (swatches.empty() ? 0.0 : 5.0) + text_width(text);
    if (legend_x_ > kMargin && legend_x_ + whole > width_ - kMargin) {
      legend_x_ = kMargin;
      y_ += kLegendHeight;
    }
    double x = legend_x_;
    for (const std::string& swatch : swatches) {
      canvas_.rectangle(swatch, x, y_ + 2.0, width, kSwatchHeight);
      x += width;
    }
    canvas_.text("legend", swatches.empty() ? x : x + 5.0, y_ + 13.0, text);
    legend_x_ += whole + kSpace;
  }

  static constexpr double kLeft = kMargin + kLabelWidth;  // where rows begin

  std::span<const TimelinePicture> pictures_;
  double most_width_;
  bool has_tips_;
  TimelineCanvas canvas_;
  PassStyles styles_;
  double width_ = kMinWidth;
  double scale_ = 1.0;       // pixels for a unit of time
  double pass_width_ = 1.0;  // of a short pass
  double y_ = kMargin;       // where the next thing is drawn
  double legend_x_ = kMargin;
  int most_held_ = 1;  // by any rank: the height of a memory lane
  // What the legend has to explain.
  bool has_pairs_ = false;
  bool has_updates_ = false;
  bool has_lanes_ = false;
  bool has_needed_ = false;
};

}  // namespace

std::string to_svg(std::span<const TimelinePicture> pictures) {
  return SvgDrawing(pictures, kMaxWidth).document();
}

std::string to_page_svg(std::span<const TimelinePicture> pictures) {
  std::string html;
  for (const PageWidth& width : kPageWidths) {
    const bool has_pointer = width.style == kPageWidths.front().style;
    html += fmt::format("<div class=\"{}\">{}</div>\n", width.style,
                        SvgDrawing(pictures, width.pixels, has_pointer).fragment(width.style));
  }
  return html + std::string(kPageRules);
}

}  // namespace phalanx
