#pragma once
// What the pictures of a timeline have in common: where rows begin, where ticks stand, and how many
// activations each rank holds.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {

// Which stack of layers a rank's stages belong to, of a model that has two.
enum class Stack : std::uint8_t { kOnly, kEncoder, kDecoder };
Stack stack_of(const TimelinePicture& picture, std::size_t rank);
// "encoder", "decoder"; nothing of an only one.
std::string_view name_of(Stack stack);

// The time at which each rank's row begins: that of the whole picture, or its own.
std::vector<double> row_origins(const TimelinePicture& picture);
// The longest row, from its origin to its last end.
double picture_length(const TimelinePicture& picture);
// The time of the shortest and of the middle pass, of those that take any; 1 where none does.
double shortest_pass(const TimelinePicture& picture);
double median_pass(const TimelinePicture& picture);
// The largest number of a microbatch.
int last_microbatch(const TimelinePicture& picture);

// The smallest of 1, 2, 5, 10, 20, ... (or 0.5, 0.2, 0.1, ...) that is at least `least`.
double tick_step(double least);

// How many activations of one chunk and microbatch a rank holds from a time on. They are there from
// the begin of the forward pass; until the end of the input gradient, of which some are needed
// until the end of the weight gradient.
struct HeldActivations {
  double time = 0.0;
  int until_input_gradient = 0;
  int until_weight_gradient = 0;

  friend bool operator==(const HeldActivations&, const HeldActivations&) = default;
};
std::vector<HeldActivations> held_activations(const std::vector<TimedAction>& row);
// The most of either, with no time.
HeldActivations most_held(const std::vector<HeldActivations>& held);

// "F forward": what people are told a pass is.
std::string_view description_of(ActionKind pass);

// At most `decimals` of them, and none that is a trailing zero.
std::string short_number(double value, int decimals);

}  // namespace phalanx
