#pragma once
// Checks the tensors that a rank's passes write, and keeps the first one that is not finite.

#include <optional>
#include <string>
#include <vector>

#include "phalanx/pipeline/placement.h"
#include "phalanx/rank/rank.h"

namespace phalanx {

// A tensor that is not finite, and the pass that wrote it.
struct NonFinite {
  nn::PassKind pass = nn::PassKind::kForward;
  int microbatch = 0;
  int stage = 0;
  int unit = 0;           // of the stage
  std::string unit_name;  // "layer 3"
  int step = 0;           // index of the tensor in the order in which the pass writes
  std::string tensor;     // "fc1 output"
  std::string input;      // the first input that was not finite; empty: none
  std::string weight;     // the same for parameters
};

// Checks the tensors that passes write, until one is not finite.
class NanWatch final : public nn::UnitHooks {
 public:
  // `first_hooks` are called before every check.
  NanWatch(const Rank& rank, const Placement& placement, nn::UnitHooks* first_hooks = nullptr);

  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void grad_ready(ParamId id, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;
  const std::optional<NonFinite>& first() const { return first_; }

 private:
  struct Place {
    const nn::Unit* unit;
    int stage, number;
  };
  const Rank& rank_;
  nn::UnitHooks* first_hooks_;
  std::vector<Place> places_;
  std::optional<NonFinite> first_;
};

}  // namespace phalanx
