#pragma once
// What a prediction rests on: where the numbers of the machine come from, and which products of the
// step are unlike all that were measured.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "phalanx/clock/machine.h"
#include "phalanx/rehearsal/rank_trace.h"

namespace phalanx {

struct PredictionBasis {
  // Keys of the descriptions by where they come from; those of single ops and shapes as one:
  // "op_rate_* (112)".
  std::map<Origin, std::vector<std::string>> keys = {};
  // "bf16 8192x768x3072", the largest first: more than two doublings from every measured product.
  // Nothing where the description has no measured products: its formula is for all.
  std::vector<std::string> unlike_measured = {};
};

PredictionBasis basis_of(std::span<const RankTrace> traces, const Machine& machine);

// Lines for people, each indented and with its newline; the first names the keys by origin.
std::string to_text(const PredictionBasis& basis);

}  // namespace phalanx
