#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "phalanx/base/numeric.h"
#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/markup.h"
#include "phalanx/drawing/palette.h"
#include "phalanx/planner/step_timeline.h"

namespace phalanx {
namespace {

// Pixels.
constexpr double kStepMargin = 12.0;
constexpr double kStepWidth = 1000.0;  // of a step that fits
constexpr double kColumnMost = 34.0;   // a pass, at most and at least
constexpr double kColumnLeast = 5.0;
constexpr double kPassHeight = 15.0;
constexpr double kLaneThick = 8.0;
constexpr double kLaneSpace = 2.0;
constexpr double kRowSpace = 7.0;
constexpr double kHeadHeight = 20.0;  // of the names of microbatches
constexpr double kHeadSize = 11.0;    // of their font
constexpr double kNoteLine = 16.0;

class StepDrawing {
 public:
  StepDrawing(const StepTimeline& timeline, const std::string& title)
      : timeline_(timeline), title_(title) {}

  std::string document() {
    measure();
    canvas_.text("title", kStepMargin, y_ + 14.0, title_);
    y_ += 28.0;
    place_rows();
    draw_ground();
    draw_microbatches();
    for (const auto& pass : timeline_.passes) draw_pass(pass);
    for (const auto& move : timeline_.moves) draw_move(move);
    for (const auto& transfers : timeline_.transfers) draw_transfers(transfers);
    draw_names();
    draw_notes();
    draw_legend();
    return canvas_.document(width_, y_ + kStepMargin, rules(),
                            hatching("waits", "#f4f4f4", kGrey.light), caption());
  }

 private:
  struct RowPlace {
    double top = 0.0;
    double passes = 0.0;  // heights
    bool has_weights = false;
    bool has_gradients = false;
    double height() const {
      return passes + (has_weights ? kLaneThick + kLaneSpace : 0.0) +
             (has_gradients ? kLaneThick + kLaneSpace : 0.0);
    }
    double weights() const { return top + passes + (passes > 0.0 ? kLaneSpace : 0.0); }
    double gradients() const { return weights() + (has_weights ? kLaneThick + kLaneSpace : 0.0); }
  };

  static bool is_of_gradients(StateMove move) {
    return move == StateMove::kGradientSum || move == StateMove::kReplicaSum;
  }

  void measure() {
    double names = 40.0;
    for (const auto& row : timeline_.rows) names = std::max(names, text_width(row.name));
    for (const auto& transfers : timeline_.transfers) {
      names = std::max(names, text_width("file " + transfers.file));
      if (std::ranges::find(files_, transfers.file) == files_.end()) {
        files_.push_back(transfers.file);
      }
    }
    left_ = kStepMargin + names + 8.0;
    column_ = std::clamp(kStepWidth / std::max(timeline_.length, 1.0), kColumnLeast, kColumnMost);
    width_ = std::max(left_ + column_ * timeline_.length, 560.0) + kStepMargin;
  }

  void place_rows() {
    places_.resize(timeline_.rows.size());
    for (const auto& move : timeline_.moves) {
      RowPlace& place = places_[static_cast<std::size_t>(move.row)];
      (is_of_gradients(move.move) ? place.has_gradients : place.has_weights) = true;
    }
    top_ = y_ + kHeadHeight;
    double y = top_ + 4.0;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i].top = y;
      places_[i].passes = timeline_.rows[i].is_unit ? kPassHeight : 0.0;
      if (places_[i].height() > 0.0) y += places_[i].height() + kRowSpace;
    }
    files_top_ = y;
    y += (2.0 * kLaneThick + kRowSpace) * static_cast<double>(files_.size());
    bottom_ = y;
    y_ = bottom_ + 6.0;
  }

  double across(double place) const { return left_ + column_ * place; }

  // Marks the update and the times without a pass.
  void draw_ground() {
    double end = 0.0;
    const auto gap = [&](double from, double to) {
      if (to <= from) return;
      has_waits_ = true;
      canvas_.rectangle("waits", across(from), top_, column_ * (to - from), bottom_ - top_,
                        "no pass: what was begun is waited for");
    };
    for (const auto& pass : timeline_.passes) {
      gap(end, pass.begin);
      end = pass.end;
    }
    gap(end, timeline_.update_begin);
    const bool goes_on =
        std::ranges::any_of(timeline_.moves, [](const auto& move) { return move.goes_on; });
    if (!goes_on) gap(timeline_.update_end, timeline_.length);
    canvas_.rectangle("update", across(timeline_.update_begin), top_,
                      column_ * (timeline_.update_end - timeline_.update_begin), bottom_ - top_,
                      "the optimizer's step");
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].height() == 0.0) continue;
      const double y = places_[i].top - kRowSpace / 2.0;
      canvas_.line("grid", left_, y, across(timeline_.length), y);
    }
  }

  void draw_microbatches() {
    const auto& passes = timeline_.passes;
    for (std::size_t i = 0; i < passes.size();) {
      std::size_t last = i;
      while (last + 1 < passes.size() && passes[last + 1].microbatch == passes[i].microbatch) {
        ++last;
      }
      const double width = column_ * (passes[last].end - passes[i].begin);
      const std::string number = fmt::format("{}", passes[i].microbatch);
      const std::string whole = "microbatch " + number;
      const auto fits = [&](const std::string& text) {
        return text_width(text, kHeadSize) + 4.0 <= width;
      };
      const double x = across(passes[i].begin);
      canvas_.line("border", x, top_ - 14.0, x, bottom_);
      if (fits(number)) {
        canvas_.text("head", x + width / 2.0, top_ - 4.0, fits(whole) ? whole : number);
      }
      i = last + 1;
    }
    canvas_.line("border", across(timeline_.update_begin), top_ - 14.0,
                 across(timeline_.update_begin), bottom_);
    canvas_.line("border", across(timeline_.length), top_ - 14.0, across(timeline_.length),
                 bottom_);
  }

  void draw_pass(const StepTimeline::Pass& pass) {
    const auto [style, words] =
        pass.kind == nn::PassKind::kForward     ? std::pair("forward", "forward")
        : pass.kind == nn::PassKind::kRecompute ? std::pair("recompute", "recomputed")
                                                : std::pair("backward", "backward");
    has_recompute_ = has_recompute_ || pass.kind == nn::PassKind::kRecompute;
    const auto row = static_cast<std::size_t>(pass.row);
    canvas_.rectangle(
        style, across(pass.begin), places_[row].top, column_ * (pass.end - pass.begin), kPassHeight,
        fmt::format("{}, {}, microbatch {}", timeline_.rows[row].name, words, pass.microbatch));
  }

  void draw_move(const StepTimeline::Move& move) {
    const auto row = static_cast<std::size_t>(move.row);
    const RowPlace& place = places_[row];
    const double y = is_of_gradients(move.move) ? place.gradients() : place.weights();
    const auto bar = [&](std::string_view style, double from, double to, std::string_view words) {
      if (to <= from) return;
      canvas_.rectangle(
          style, across(from), y, column_ * (to - from), kLaneThick,
          fmt::format("{}: {}, {}", timeline_.rows[row].name, words, format_bytes(move.bytes)));
    };
    switch (move.move) {
      case StateMove::kWeightRead:
        has_reads_ = true;
        return bar("read", move.begin, move.done, "its part is read");
      case StateMove::kWeights:
        has_weights_ = true;
        bar("coming", move.begin, move.done, "its weights come");
        return bar("whole", move.done, move.end, "its weights are whole");
      case StateMove::kGradientSum:
        has_sums_ = true;
        return bar("sum", move.begin, move.done, "its gradients are summed");
      case StateMove::kReplicaSum:
        has_replicas_ = true;
        return bar("replicas", move.begin, move.done, "its gradients are summed over copies");
      case StateMove::kNewParameters:
        has_new_ = true;
        return bar("new", move.begin, move.done,
                   move.goes_on ? "its new parameters come, until the next step reads them"
                                : "its new parameters come");
    }
  }

  // Reads are above, writes below.
  void draw_transfers(const StepTimeline::Transfers& transfers) {
    const auto file = std::ranges::find(files_, transfers.file) - files_.begin();
    const bool reads = transfers.op == "read";
    const double y = files_top_ + (2.0 * kLaneThick + kRowSpace) * static_cast<double>(file) +
                     (reads ? 0.0 : kLaneThick);
    canvas_.rectangle(reads ? "read" : "write", across(transfers.begin), y,
                      column_ * (transfers.end - transfers.begin), kLaneThick,
                      fmt::format("{}: {} {} begin, {}", transfers.file, transfers.count,
                                  reads ? "reads" : "writes", format_bytes(transfers.bytes)));
  }

  void draw_names() {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].height() == 0.0) continue;
      const double middle = timeline_.rows[i].is_unit ? kPassHeight : places_[i].height();
      canvas_.text(timeline_.rows[i].is_unit ? "label" : "label soft", left_ - 8.0,
                   places_[i].top + middle / 2.0 + 4.0, timeline_.rows[i].name);
    }
    for (std::size_t f = 0; f < files_.size(); ++f) {
      canvas_.text(
          "label soft", left_ - 8.0,
          files_top_ + (2.0 * kLaneThick + kRowSpace) * static_cast<double>(f) + kLaneThick + 4.0,
          "file " + files_[f]);
    }
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes = {
        "Left to right: the order. A column is a pass of a unit; no width is a time."};
    const std::int64_t most = timeline_.most_weight_bytes();
    if (most > 0) {
      notes.push_back(fmt::format("Whole weights, and those that come: at most {} at once.",
                                  format_bytes(most)));
    }
    return notes;
  }

  void draw_notes() {
    for (const std::string& note : notes()) {
      canvas_.text("soft", left_, y_ + 12.0, note);
      y_ += kNoteLine;
    }
    y_ += 10.0;
  }

  void draw_legend() {
    Legend legend(canvas_, kStepMargin, width_ - kStepMargin, y_);
    legend.add("forward", "forward");
    if (has_recompute_) legend.add("recompute", "recomputed");
    legend.add("backward", "backward");
    if (has_reads_ || !files_.empty()) legend.add("read", "read");
    if (!files_.empty()) legend.add("write", "written");
    if (has_weights_) {
      legend.add("coming", "weights come");
      legend.add("whole", "weights are whole");
    }
    if (has_sums_) legend.add("sum", "gradients are summed");
    if (has_replicas_) legend.add("replicas", "summed over copies");
    if (has_new_) legend.add("new", "new parameters come");
    legend.add("update", "update");
    if (has_waits_) legend.add("waits", "no pass: it waits");
    y_ = legend.bottom();
  }

  static std::string rules() {
    std::string rules = fmt::format(
        ".border{{stroke:#999999;stroke-width:0.8}}\n"
        ".head{{font-size:{}px;fill:{};text-anchor:middle}}\n"
        ".waits{{fill:url(#waits)}}\n.update{{fill:#dedede}}\n",
        kHeadSize, kGrey.dark);
    constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kBars = {{
        {"forward", kBlue.strong},
        {"recompute", kBlue.light},
        {"backward", kGreen.strong},
        {"coming", kPurple.light},
        {"whole", kPurple.strong},
        {"sum", kOrange.strong},
        {"replicas", kOrange.dark},
        {"new", kYellow.strong},
        {"read", kRed.strong},
        {"write", kRed.dark},
    }};
    for (const auto& [style, colour] : kBars) {
      rules += fmt::format(".{}{{fill:{};stroke:#ffffff;stroke-width:0.5}}\n", style, colour);
    }
    return rules;
  }

  CanvasCaption caption() const {
    std::string words;
    for (const std::string& note : notes()) words += note + " ";
    words += fmt::format("{} passes; begun: ", timeline_.passes.size());
    constexpr std::array<std::pair<StateMove, std::string_view>, 5> kMoves = {{
        {StateMove::kWeightRead, "reads of own parts"},
        {StateMove::kWeights, "gathers of weights"},
        {StateMove::kGradientSum, "sums of gradients"},
        {StateMove::kReplicaSum, "sums over copies"},
        {StateMove::kNewParameters, "gathers of new parameters"},
    }};
    for (const auto& [move, name] : kMoves) {
      words +=
          fmt::format("{}{} {}", move == kMoves.front().first ? "" : ", ",
                      std::ranges::count(timeline_.moves, move, &StepTimeline::Move::move), name);
    }
    return {.title = title_, .description = words + "."};
  }

  const StepTimeline& timeline_;
  const std::string& title_;
  Canvas canvas_;
  std::vector<RowPlace> places_;    // by row
  std::vector<std::string> files_;  // in the order of their first transfer
  double column_ = 0.0;             // the width of a pass
  double left_ = 0.0;               // where the step begins
  double width_ = 0.0;
  double top_ = 0.0, files_top_ = 0.0, bottom_ = 0.0;
  double y_ = kStepMargin;
  // What the legend has to explain.
  bool has_recompute_ = false, has_reads_ = false, has_weights_ = false, has_sums_ = false;
  bool has_replicas_ = false, has_new_ = false, has_waits_ = false;
};

}  // namespace

std::string to_svg(const StepTimeline& timeline, const std::string& title) {
  return StepDrawing(timeline, title).document();
}

}  // namespace phalanx
