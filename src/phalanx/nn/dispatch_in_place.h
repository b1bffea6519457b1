#pragma once
// What two ways of dispatch share (nn/dispatch.h): rows are gathered from tokens in this rank's
// memory by one order of pairs, in one round, and results are read where experts have written them.

#include "phalanx/nn/dispatch.h"
#include "phalanx/nn/pair_order.h"

namespace phalanx::nn {

class DispatchInPlace : public Dispatch {
 public:
  DispatchInPlace(Pass& pass, const Saved& saved, const PairOrder& order)
      : pass_(pass), saved_(saved), order_(order) {}

  Tensor offsets(int /*round*/) override { return order_.offsets(saved_); }
  void fetch(int /*round*/, const Freight& rows, const Freight& numbers) override {
    if (rows.at_expert) order_.gather(pass_, rows.at_expert, rows.at_home, saved_);
    if (!numbers.at_expert) return;
    order_.gather_numbers(pass_, numbers.at_expert, numbers.at_home, saved_);
  }
  Tensor coming_rows(const Tensor& at_expert) override { return at_expert; }
  Tensor coming_numbers(const Tensor& at_expert) override { return at_expert; }
  void give_back(int /*round*/, const Freight& /*rows*/, const Freight& /*numbers*/) override {}

 protected:
  Pass& pass_;
  const Saved saved_;
  const PairOrder& order_;
};

}  // namespace phalanx::nn
