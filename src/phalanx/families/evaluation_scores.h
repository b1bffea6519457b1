#pragma once
// What evaluations of a model family report besides losses: how many predictions are right. A unit
// leaves its predictions in its saved tensors; after the unit's forward pass a rank copies them to
// the host and counts; the counts of all ranks are added.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "phalanx/base/named_loss.h"
#include "phalanx/nn/unit.h"

namespace phalanx {

class EvaluationScores {
 public:
  // Copies a tensor to the host.
  using ReadBack = std::function<void(const Tensor&, std::span<std::byte>)>;

  virtual ~EvaluationScores() = default;

  // The length of `counts`.
  virtual std::int64_t counts() const = 0;
  // Called after a unit's forward pass over a microbatch: adds to `counts`. All ranks of a
  // tensor-parallel group count the same.
  virtual void count(const nn::Unit& unit, const nn::UnitTensors& tensors, const ReadBack& read,
                     std::span<double> counts) const = 0;
  // The scores, from the counts of a whole evaluation.
  virtual std::vector<NamedLoss> scores(std::span<const double> counts) const = 0;
};

}  // namespace phalanx
