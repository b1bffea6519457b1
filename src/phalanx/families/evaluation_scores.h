#pragma once
// What evaluations of a model family tell beside the losses: how many predictions are right. A unit
// leaves in its saved tensors what it predicts; a rank brings that to the host behind the unit's
// forward pass, counts, and adds the counts of all ranks up.

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
  // Brings a tensor to the host.
  using ReadBack = std::function<void(const Tensor&, std::span<std::byte>)>;

  virtual ~EvaluationScores() = default;

  // How many numbers are counted.
  virtual std::int64_t counts() const = 0;
  // After a unit's forward pass over a microbatch: adds to `counts`. Tensor-parallel ranks count
  // the same.
  virtual void count(const nn::Unit& unit, const nn::UnitTensors& tensors, const ReadBack& read,
                     std::span<double> counts) const = 0;
  // Of the counts of a whole evaluation.
  virtual std::vector<NamedLoss> scores(std::span<const double> counts) const = 0;
};

}  // namespace phalanx
