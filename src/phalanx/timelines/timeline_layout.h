#pragma once
// What all pictures of a timeline need: where rows begin, how long passes are, and how many
// activations each rank holds.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {

// Which stack of layers a rank's stages belong to, if the model has two stacks.
enum class Stack : std::uint8_t { kOnly, kEncoder, kDecoder };
Stack stack_of(const TimelinePicture& picture, std::size_t rank);
// "encoder", "decoder"; "" for kOnly.
std::string_view name_of(Stack stack);

// The time at which each rank's row begins: the picture's first action, or the rank's own.
std::vector<double> row_origins(const TimelinePicture& picture);
// The length of the longest row, from its origin to the end of its last action.
double picture_length(const TimelinePicture& picture);
// The times of the shortest and of the median pass; passes that take no time do not count. 1 where
// there is no other.
double shortest_pass(const TimelinePicture& picture);
double median_pass(const TimelinePicture& picture);
// The largest number of a microbatch.
int last_microbatch(const TimelinePicture& picture);

// How many activations, each of one chunk and microbatch, a rank holds from a time on. A forward
// pass makes them when it begins; the input gradient needs them until it ends, the weight gradient
// needs some of them until it ends.
struct HeldActivations {
  double time = 0.0;
  int until_input_gradient = 0;
  int until_weight_gradient = 0;

  friend bool operator==(const HeldActivations&, const HeldActivations&) = default;
};
std::vector<HeldActivations> held_activations(const std::vector<TimedAction>& row);
// The greatest value of either count; `time` is 0.
HeldActivations most_held(const std::vector<HeldActivations>& held);

// "F forward": the letter of a pass and its meaning, for legends.
std::string_view description_of(ActionKind pass);

}  // namespace phalanx
