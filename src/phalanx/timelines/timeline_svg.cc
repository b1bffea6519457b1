#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/markup.h"
#include "phalanx/drawing/palette.h"
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
constexpr double kTickDistance = 44.0;  // at least
constexpr double kDigitSize = 11.0;     // of fonts
constexpr double kTextSize = 12.0;
constexpr double kTitleSize = 14.0;

// In addition to the canvas's own.
std::string own_rules() {
  return fmt::format(
      ".idle{{fill:#ffffff;stroke:{};stroke-width:0.6}}\n"
      ".pair{{fill:none;stroke:#111111;stroke-width:1.8}}\n"
      ".update{{fill:url(#hatch);stroke:{};stroke-width:0.6}}\n"
      ".needed{{fill:{}}}\n.held{{fill:{}}}\n"
      ".axis{{text-anchor:end}}\n.note{{text-anchor:start}}\n.up{{fill:#ffffff}}\n",
      kGrid, kGrey.dark, kPurple.light, kPurple.strong);
}

// The lines of a text; those that are wider than `most` are broken at blanks.
std::vector<std::string> lines_of(std::string_view text, double most, double font_size) {
  const auto letters = static_cast<std::size_t>(std::max(most / text_width("m", font_size), 1.0));
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

// A page has each picture in three widths and shows the one that fits: in a large window, in a
// small window or on paper, and on a phone.
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
.timeline .idle{fill:var(--raised);stroke:var(--rule)}
.timeline .grid{stroke:var(--rule)}
.timeline .pass{stroke:var(--ground)}
.timeline .pair{stroke:var(--ink)}
.timeline .base{stroke:var(--soft)}
.timeline text{fill:var(--ink)}
.timeline .tick{fill:var(--soft)}
.timeline .digits{fill:#111111}
.timeline .up{fill:#ffffff}
</style>
)";

bool is_update(ActionKind kind) {
  return kind == ActionKind::kReduceGradients || kind == ActionKind::kOptimizerStep ||
         kind == ActionKind::kGatherParameters;
}

class SvgDrawing {
 public:
  // `has_tips`: a pass says what it is while the pointer rests on it.
  SvgDrawing(std::span<const TimelinePicture> pictures, double most_width, bool has_tips = true)
      : pictures_(pictures), most_width_(most_width), has_tips_(has_tips) {}

  std::string document() {
    draw();
    return canvas_.document(width_, y_ + kMargin, rules("stroke:#ffffff;" + border()),
                            definitions());
  }
  // For an element of the class `style` within one of the class "timeline".
  std::string fragment(std::string_view style) {
    draw();
    return canvas_.fragment(
        width_, y_ + kMargin,
        fmt::format("{}.{} .pass{{{}}}\n", rules("stroke:#ffffff"), style, border()), definitions(),
        "timeline");
  }

 private:
  void draw() {
    measure();
    for (const TimelinePicture& picture : pictures_) draw(picture);
    draw_legend();
  }

  std::string rules(std::string_view of_passes) const {
    return fmt::format("{}.pass{{{}}}\n", own_rules(), of_passes) + styles_.rules();
  }
  std::string definitions() const {
    return has_updates_ ? hatching("hatch", kGrid, kGrey.strong) : "";
  }
  // Borders separate neighbours; of narrow passes they are thin, so that the passes can be seen.
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
        text = std::max(text, text_width(line, kTitleSize));
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
    return lines_of(picture.title, most_width_ - 2.0 * kMargin, kTitleSize);
  }
  std::vector<std::string> footer_lines(const TimelinePicture& picture) const {
    return lines_of(picture.footer, most_width_ - 2.0 * kMargin, kTextSize);
  }

  void draw(const TimelinePicture& picture) {
    if (y_ > kMargin) y_ += kPictureGap;
    for (const std::string& line : title_lines(picture)) {
      canvas_.text("title", kMargin, y_ + 14.0, line);
      y_ += kFooterHeight;
    }
    y_ += kTitleHeight - kFooterHeight;
    const double length = picture_length(picture) > 0.0 ? scale_ * picture_length(picture) : 1.0;
    const double row = kRowHeight + (picture.memory_lane ? kLaneHeight + 2.0 : 0.0) + kRowGap;
    const double bottom = y_ + row * static_cast<double>(picture.timeline.size());
    const AxisScale scale{.low = 0.0, .high = length / scale_};
    const std::vector<AxisTick> grid = ticks(scale, length / kTickDistance);
    draw_rows(picture, row, length, grid);
    const std::string_view unit = picture.unit.empty() ? "time" : std::string_view(picture.unit);
    canvas_.axis(scale, grid, kLeft, kLeft + length, bottom);
    canvas_.text("tick axis", kLeft - 8.0, bottom + 15.0, unit);
    y_ = bottom + kAxisHeight;
    if (picture.aligned_to_first) {
      canvas_.text("tick note", kLeft, y_ + 8.0, "every rank from its own first pass");
      y_ += kFooterHeight;
    }
    for (const std::string& line : footer_lines(picture)) {
      canvas_.text("footer", kMargin, y_ + 12.0, line);
      y_ += kFooterHeight;
    }
  }

  void draw_rows(const TimelinePicture& picture, double height, double length,
                 const std::vector<AxisTick>& grid) {
    const std::vector<double> origins = row_origins(picture);
    for (std::size_t rank = 0; rank < picture.timeline.size(); ++rank) {
      const double y = y_ + height * static_cast<double>(rank);
      draw_label(picture, rank, y);
      canvas_.rectangle("idle", kLeft, y, length, kRowHeight);
      for (const AxisTick& tick : grid) {
        const double x = scale_ * tick.value;
        if (x > 0.0 && x < length) canvas_.line("grid", kLeft + x, y, kLeft + x, y + kRowHeight);
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
    if (text_width(number, kDigitSize) + 2.0 > width) return;
    canvas_.text(PassStyles::digits_of(action, picture.placement), left + width / 2.0, y + 15.0,
                 number);
  }

  // The activations held, as two staircases; the input gradient's is in front.
  void draw_lane(const std::vector<TimedAction>& row, double x, double y, double length) {
    const std::vector<HeldActivations> held = held_activations(row);
    const double base = y + kLaneHeight;
    const double unit = kLaneHeight / std::max(most_held_, 1);
    const auto staircase = [&](std::string_view style, int HeldActivations::*level) {
      canvas_.begin_path(style, held.empty() ? x : x + scale_ * held.front().time, base);
      for (const HeldActivations& now : held) {
        canvas_.horizontal_to(x + scale_ * now.time);
        canvas_.vertical_to(base - unit * (now.*level));
      }
      canvas_.vertical_to(base);
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

  void draw_legend() {
    Legend legend(canvas_, kMargin, width_ - kMargin, y_ + 10.0);
    bool has_chunks = false;
    bool has_up = false;
    bool has_stacks = false;
    const auto add = [&](std::vector<std::string> swatches, double width, std::string_view text) {
      legend.add(swatches, width, text);
    };
    for (const auto& [kind, styles] : styles_.used()) {
      std::vector<std::string> swatches;
      for (const auto& [name, style] : styles) {
        swatches.push_back(fmt::format("pass {}", name));
        has_chunks = has_chunks || style.is_one_of_many;
        has_up = has_up || style.is_up;
        has_stacks = has_stacks || style.stack != Stack::kOnly;
      }
      add(swatches, kind == ActionKind::kBackward ? 20.0 : 11.0, description_of(kind));
    }
    if (has_chunks) add({}, 0.0, "dark to light: a rank's chunks");
    if (has_stacks) add({}, 0.0, "dark: encoder, light: decoder");
    if (has_up) add({}, 0.0, "white digits: up, from the last rank");
    if (has_pairs_) add({"pair"}, 22.0, "computed together");
    if (has_updates_) add({"update"}, 16.0, "reduction, update");
    if (has_needed_) {
      add({"held", "needed"}, 11.0, "activations held until b, until w");
    } else if (has_lanes_) {
      add({"held"}, 11.0, "activations held");
    }
    y_ = legend.bottom();
  }

  static constexpr double kLeft = kMargin + kLabelWidth;  // where rows begin

  std::span<const TimelinePicture> pictures_;
  double most_width_;
  bool has_tips_;
  Canvas canvas_;
  PassStyles styles_;
  double width_ = kMinWidth;
  double scale_ = 1.0;       // pixels for a unit of time
  double pass_width_ = 1.0;  // of a short pass
  double y_ = kMargin;       // where the next thing is drawn
  int most_held_ = 1;        // by any rank: the height of a memory lane
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
