#pragma once
// Which experts a layer's router chose for a row, and how near it was to another choice. A row is
// known by its sample and its place in it, so maps of different layouts can be compared.

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "phalanx/nn/unit.h"

namespace phalanx {

// Layer, number of the sample in the consumed stream (so of the step, too), place in the sample.
using RoutedRow = std::tuple<std::string, std::int64_t, std::int32_t>;

struct Choice {
  std::vector<std::int32_t> experts;  // rising
  // The score of the last chosen expert, less that of the best other one. Scores are the logits.
  float gap = std::numeric_limits<float>::infinity();
};
using RoutingMap = std::map<RoutedRow, Choice>;

// The map of all rows of a training, from the forward passes of all ranks.
class RoutingRecord final : public nn::UnitHooks {
 public:
  // Ranks call it at the same time. InternalError where two of them route one row.
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;
  RoutingMap take() { return std::move(map_); }

 private:
  std::mutex mutex_;
  RoutingMap map_;
};

// The first row with other experts, or that one map lacks; empty where there is none.
std::string first_difference(const RoutingMap& a, const RoutingMap& b);
// The smallest of all gaps; infinity where there is none.
float smallest_gap(const RoutingMap& map);

}  // namespace phalanx
