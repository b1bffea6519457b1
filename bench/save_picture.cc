#include "save_picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "phalanx/drawing/axis_scale.h"
#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/palette.h"

namespace phalanx::bench {
namespace {

constexpr double kMargin = 16, kNames = 236, kWidth = 620, kLane = 46, kBox = 18, kBar = 7;
constexpr double kTop = 66;

std::string rules() {
  return fmt::format(
      ".step{{fill:{};stroke:#ffffff;stroke-width:.7}}\n.stand{{fill:{}}}\n.save{{fill:{}}}\n",
      kBlue.light, kRed.strong, kGreen.strong);
}

}  // namespace

std::string save_picture(std::span<const SaveLane> lanes) {
  double last = 0;
  for (const SaveLane& lane : lanes) {
    for (const auto* spans : {&lane.steps, &lane.stands, &lane.saves}) {
      for (const SaveLane::Span& span : *spans) last = std::max(last, span.end);
    }
  }
  const double left = kMargin + kNames;
  const AxisScale scale = scale_over(0, std::max(last, 1e-3), false, true);
  const auto x_of = [&](double seconds) { return left + kWidth * scale.place(seconds); };
  Canvas canvas;
  canvas.text("title", kMargin, 26, "A save under training steps");
  Legend legend(canvas, kMargin, left + kWidth, 36);
  legend.add("step", "steps of a rank");
  legend.add("stand", "it stands for the save");
  legend.add("save", "the save, until the checkpoint is in its place");
  const auto draw = [&](const char* style, const std::vector<SaveLane::Span>& spans, double y,
                        double height) {
    for (const SaveLane::Span& span : spans) {
      canvas.rectangle(style, x_of(span.begin), y, x_of(span.end) - x_of(span.begin), height,
                       fmt::format("{:.3f} s", span.end - span.begin));
    }
  };
  double y = kTop;
  for (const SaveLane& lane : lanes) {
    canvas.text("", kMargin, y + 13, lane.name);
    draw("step", lane.steps, y, kBox);
    draw("stand", lane.stands, y, kBox);
    draw("save", lane.saves, y + kBox + 3, kBar);
    y += kLane;
  }
  canvas.axis(scale, ticks(scale, 8), left, left + kWidth, y);
  canvas.text("", left + kWidth - 44, y + 30, "seconds");
  return canvas.document(
      left + kWidth + kMargin, y + 40, rules(), "",
      {.title = "Saves under training steps",
       .description = "For each way to save: the steps of a rank, where they stand, and how long "
                      "the save goes on."});
}

}  // namespace phalanx::bench
