#pragma once
// `phalanx grid` as a table for people and as a JSON document.

#include <string>

#include "phalanx/mesh/parallel_grids.h"

namespace phalanx {

// The sizes, a row for every rank with its coordinates, and every family of groups, within 100
// columns. A long group is shortened: [0,8,..,504] for equal steps, [0..7,48..55] for runs.
std::string to_text(const ParallelGrids& grids);

// One line: {"world_size", "order", "groups": {"tp": [[0,1],...], ...}}; for an encoder and a
// decoder also "split_rank", and if each has a grid of its own "encoder_outputs": [{"from", "to":
// [...], "gradient_from"}, ...].
std::string to_json(const ParallelGrids& grids);

}  // namespace phalanx
