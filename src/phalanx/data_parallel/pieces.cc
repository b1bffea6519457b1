#include "phalanx/data_parallel/pieces.h"

#include <utility>

#include "phalanx/mesh/box_range.h"

namespace phalanx {
namespace {

// The parameter with the boxes that this rank writes if it writes any: of the neighbours that have
// a box, one writes it.
ParamSpec written_spec(const StateLayout& states, ParamId id) {
  ParamSpec written = states.table()[id];
  std::erase_if(written.boxes,
                [&](const ParamBox& box) { return !states.counts(id) || box.holder > 0; });
  return written;
}

}  // namespace

std::vector<Piece> pieces(const StateLayout& states, Writers writers) {
  std::vector<Piece> pieces;
  for (const Segment& segment : states.segments()) {
    const bool writes = writers == Writers::kAll ? states.writes_in_turn(segment.tile)
                                                 : states.is_first_copy(segment.tile);
    if (!writes) continue;
    std::vector<ParamBox> boxes =
        boxes_of_range(written_spec(states, segment.id), segment.begin, segment.count);
    if (!boxes.empty()) pieces.push_back({segment, std::move(boxes)});
  }
  return pieces;
}

std::vector<Piece> frozen_pieces(const StateLayout& states) {
  std::vector<Piece> pieces;
  for (const Segment& segment : states.frozen()) {
    std::vector<ParamBox> boxes = whole_weight_boxes(states, segment.id);
    if (!boxes.empty()) pieces.push_back({segment, std::move(boxes)});
  }
  return pieces;
}

std::vector<ParamBox> whole_weight_boxes(const StateLayout& states, ParamId id) {
  return states.is_first_rank(id) ? written_spec(states, id).boxes : std::vector<ParamBox>();
}

}  // namespace phalanx
