#pragma once
// Pictures of a timeline, simulated or measured, in the style of the papers: a row for each rank,
// time to the right, microbatches as numbers. timeline_colours.h says what colours mean.

#include <span>
#include <string>
#include <string_view>

#include "phalanx/pipeline/simulator.h"

namespace phalanx {

struct TimelinePicture {
  std::string title;
  Placement placement;
  Timeline timeline;
  // A second lane under each rank shows the activations that it holds.
  bool memory_lane = true;
  // Each rank's row begins with its first action, so that a bubble of zero can be seen.
  bool aligned_to_first = false;
  // The axis's unit: "" or "ms".
  std::string unit;
  // Lines under the picture.
  std::string footer;
  // The first stage of the decoder; 0: the model is one stack.
  int split = 0;
};

// One SVG document. Several pictures are one under the other and have one time scale.
std::string to_svg(std::span<const TimelinePicture> pictures);
// The same for an element of the class "timeline" of a page: with the page's colours
// (drawing/palette.h), and in three widths, of which the page shows the one that fits.
std::string to_page_svg(std::span<const TimelinePicture> pictures);
// For terminals: each rank has a line of passes and a line of microbatches (and one of chunks, if
// there are several). Lines have at most `columns` letters: longer ones lose their middle. There is
// no memory lane.
std::string to_text(const TimelinePicture& picture, int columns = 160);
// Chrome's trace event format, which Perfetto also reads: a process for each picture, a thread for
// each rank, and counters of the activations held. A unit of time is `seconds_per_unit`.
std::string to_chrome_trace(std::span<const TimelinePicture> pictures, double seconds_per_unit);

}  // namespace phalanx
