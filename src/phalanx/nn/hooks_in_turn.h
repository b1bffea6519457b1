#pragma once

#include <utility>
#include <vector>

#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// Several hooks in one. before() calls them from first to last, after() and grad_ready() from last
// to first.
class HooksInTurn final : public UnitHooks {
 public:
  explicit HooksInTurn(std::vector<UnitHooks*> hooks) : hooks_(std::move(hooks)) {}

  void before(const Unit& unit, PassKind pass, int microbatch) override {
    for (UnitHooks* hooks : hooks_) hooks->before(unit, pass, microbatch);
  }
  void after(const Unit& unit, PassKind pass, int microbatch, const UnitTensors& tensors) override {
    for (std::size_t i = hooks_.size(); i-- > 0;) hooks_[i]->after(unit, pass, microbatch, tensors);
  }
  void grad_ready(ParamId id, int microbatch) override {
    for (std::size_t i = hooks_.size(); i-- > 0;) hooks_[i]->grad_ready(id, microbatch);
  }

 private:
  std::vector<UnitHooks*> hooks_;
};

}  // namespace phalanx::nn
