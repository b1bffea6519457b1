#pragma once
// Pictures of a timeline, simulated or measured, in the style of the papers: a row for each rank,
// time to the right, microbatches as numbers. Forward blue, backward green, weight gradient orange;
// chunks by lightness, the direction up by white digits.

#include <span>
#include <string>
#include <string_view>

#include "phalanx/pipeline/simulator.h"

namespace phalanx {

struct TimelinePicture {
  std::string title;
  Placement placement;
  Timeline timeline;
  // A second lane under each rank: the activations that it holds.
  bool memory_lane = true;
  // Each rank's row shifted to its first action, where a bubble of zero can be seen.
  bool aligned_to_first = false;
  // Of the axis: "", "ms".
  std::string unit;
  // Lines under the picture.
  std::string footer;
  // The first stage of a decoder; 0: one stack. The encoder's stages are dark, the decoder's light.
  int split = 0;
};

// One SVG document; several pictures one under the other on one time scale.
std::string to_svg(std::span<const TimelinePicture> pictures);
// The same for a page, to stand within an element of the class "timeline": on the page's ground,
// which may be dark, and in three widths, of which the page shows the one that fits.
std::string to_page_svg(std::span<const TimelinePicture> pictures);
// For terminals: for each rank a line of passes and one of microbatches (and of chunks, if there
// are several), within `columns`; the middle of what is longer is left out. No memory lane.
std::string to_text(const TimelinePicture& picture, int columns = 160);
// Chrome's trace event format, which Perfetto reads too: a process for each picture, a thread for
// each rank, and counters of the activations held. `seconds_per_unit` makes microseconds of times.
std::string to_chrome_trace(std::span<const TimelinePicture> pictures, double seconds_per_unit);

}  // namespace phalanx
