#include <fmt/core.h>

#include <algorithm>

#include "phalanx/base/numeric.h"
#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/markup.h"
#include "phalanx/drawing/palette.h"
#include "phalanx/planner/context_timeline.h"

namespace phalanx {
namespace {

using ExchangePart = ContextTimeline::Part;
using ExchangeRow = ContextTimeline::Row;

// Pixels.
constexpr double kExchangeMargin = 12.0;
// Attention to a block: of a ring of ranks, and of groups, whose names are longer.
constexpr double kExchangeColumn = 72.0;
constexpr double kExchangeWideColumn = 124.0;
constexpr double kExchangeBox = 20.0;
constexpr double kExchangeLane = 14.0;
constexpr double kExchangeLaneSpace = 2.0;
constexpr double kExchangeRowSpace = 10.0;
constexpr double kExchangePartSpace = 28.0;
constexpr double kExchangeFont = 10.0;  // of the font of lanes

class ExchangeDrawing {
 public:
  ExchangeDrawing(const ContextTimeline& timeline, const std::string& title)
      : timeline_(timeline), title_(title) {}

  std::string document() {
    double longest = 0.0;
    column_ = is_in_groups() ? kExchangeWideColumn : kExchangeColumn;
    for (const ExchangeRow& row : timeline_.rows) {
      left_ = std::max(left_, text_width(name_of(row)));
      longest = std::max(longest, row.forward.length + row.backward.length);
    }
    left_ += kExchangeMargin + 8.0;
    width_ = std::max(left_ + column_ * longest + kExchangePartSpace, 560.0) + kExchangeMargin;
    canvas_.text("title", kExchangeMargin, y_ + 14.0, title_);
    y_ += 34.0;
    const double backward =
        left_ + column_ * longest_of(&ExchangeRow::forward) + kExchangePartSpace;
    canvas_.text("soft", left_, y_, "forward, " + timeline_.layer);
    canvas_.text("soft", backward, y_, "backward");
    y_ += 8.0;
    const double top = y_;
    for (const ExchangeRow& row : timeline_.rows) {
      canvas_.text("label", left_ - 8.0, y_ + kExchangeBox / 2.0 + 4.0, name_of(row));
      draw(row.forward, left_, "forward");
      draw(row.backward, backward, "backward");
      y_ += height() + kExchangeRowSpace;
    }
    canvas_.line("border", backward - kExchangePartSpace / 2.0, top,
                 backward - kExchangePartSpace / 2.0, y_);
    y_ += 14.0;
    canvas_.text("soft", kExchangeMargin, y_, kNote);
    y_ += 14.0;
    draw_legend();
    return canvas_.document(width_, y_ + kExchangeMargin, rules(), "", caption());
  }

 private:
  static constexpr std::string_view kNote =
      "Left to right: the order of each rank. A box is attention to a block of keys; no width is a "
      "time.";

  static std::string name_of(const ExchangeRow& row) { return fmt::format("rank {}", row.rank); }
  double longest_of(ExchangePart ExchangeRow::*part) const {
    double longest = 0.0;
    for (const ExchangeRow& row : timeline_.rows) longest = std::max(longest, (row.*part).length);
    return longest;
  }
  // Keys and values have a lane, and so have gradients.
  static double height() { return kExchangeBox + 2.0 * (kExchangeLane + kExchangeLaneSpace); }

  bool is_in_groups() const {
    return std::ranges::any_of(timeline_.rows, [](const ExchangeRow& row) {
      return row.ring_rank >= 0 && row.ring_rank != row.rank;
    });
  }
  std::string peer_name(int peer) const {
    return fmt::format("{}{}", is_in_groups() ? "group " : "", peer);
  }

  void text_within(double x, double width, double y, std::string_view text) {
    if (text_width(text, kExchangeFont) + 2.0 <= width)
      canvas_.text("small", x + width / 2.0, y, text);
  }

  void draw(const ExchangePart& part, double left, std::string_view style) {
    for (const ContextTimeline::Attention& attention : part.attention) {
      const double x = left + column_ * attention.begin;
      const double width = column_ * (attention.end - attention.begin);
      const std::string keys =
          attention.source < 0 ? "all keys" : "keys of " + peer_name(attention.source);
      canvas_.rectangle(style, x, y_, width, kExchangeBox, keys);
      text_within(x, width, y_ + kExchangeBox / 2.0 + 4.0, keys);
    }
    for (const ContextTimeline::Move& move : part.moves) draw(move, left);
  }

  void draw(const ContextTimeline::Move& move, double left) {
    has_gradients_ = has_gradients_ || move.has_gradients;
    const double x = left + column_ * move.begin;
    const double width = column_ * (move.done - move.begin);
    const double y = y_ + kExchangeBox + kExchangeLaneSpace +
                     (move.has_gradients ? kExchangeLane + kExchangeLaneSpace : 0.0);
    has_heads_ = has_heads_ || move.op == "all_to_all";
    has_keys_ = has_keys_ || (move.op != "all_to_all" && !move.has_gradients);
    const std::string words = words_of(move);
    canvas_.rectangle(move.has_gradients ? "gradients" : "keys", x, y, width, kExchangeLane,
                      fmt::format("{}: {}", words, format_bytes(move.bytes)));
    text_within(x, width, y + kExchangeLane - 4.0, words);
  }

  std::string words_of(const ContextTimeline::Move& move) const {
    if (move.op == "exchange") return "to " + peer_name(move.to);
    if (move.op == "all_gather") return "gather";
    if (move.op == "reduce_scatter") return "sum";
    return move.op == "all_to_all" ? "a2a" : std::string(move.op);
  }

  void draw_legend() {
    Legend legend(canvas_, kExchangeMargin, width_ - kExchangeMargin, y_);
    legend.add("forward", "attention forward");
    legend.add("backward", "attention backward");
    if (has_keys_ || has_heads_) {
      legend.add("keys", fmt::format("{}{}{} under way", has_keys_ ? "keys and values" : "",
                                     has_keys_ && has_heads_ ? ", " : "",
                                     has_heads_ ? "rows for heads" : ""));
    }
    if (has_gradients_) legend.add("gradients", "gradients of keys and values on their way home");
    y_ = legend.bottom();
  }

  static std::string rules() {
    return fmt::format(
        ".border{{stroke:#999999;stroke-width:0.8}}\n"
        ".small{{font-size:{}px;fill:#111111;text-anchor:middle;pointer-events:none}}\n"
        ".forward{{fill:{};stroke:#ffffff}}\n.backward{{fill:{};stroke:#ffffff}}\n"
        ".keys{{fill:{};stroke:#ffffff}}\n.gradients{{fill:{};stroke:#ffffff}}\n",
        kExchangeFont, kBlue.light, kGreen.light, kYellow.strong, kOrange.strong);
  }

  CanvasCaption caption() const {
    std::string words(kNote);
    for (const ExchangeRow& row : timeline_.rows) {
      words += fmt::format(
          " Rank {}: {} parts of attention and {} messages forward, {} and {} "
          "backward.",
          row.rank, row.forward.attention.size(), row.forward.moves.size(),
          row.backward.attention.size(), row.backward.moves.size());
    }
    return {.title = title_, .description = words};
  }

  const ContextTimeline& timeline_;
  const std::string& title_;
  Canvas canvas_;
  double column_ = 0.0;
  double left_ = 0.0;
  double width_ = 0.0;
  double y_ = kExchangeMargin;
  bool has_keys_ = false, has_heads_ = false, has_gradients_ = false;  // for the legend
};

}  // namespace

std::string to_svg(const ContextTimeline& timeline, const std::string& title) {
  return ExchangeDrawing(timeline, title).document();
}

}  // namespace phalanx
