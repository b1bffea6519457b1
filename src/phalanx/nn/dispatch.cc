#include "phalanx/nn/dispatch.h"

#include "phalanx/nn/dispatch_in_place.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

class LocalDispatch final : public DispatchInPlace {
 public:
  LocalDispatch(Pass& pass, const Saved& saved, const PairOrder& order, bool has_rest)
      : DispatchInPlace(pass, saved, order), has_rest_(has_rest) {}

  void clear_rest(int /*round*/, const Tensor& at_expert) override {
    if (has_rest_) ops::fill(pass_.ops, {.x = at_expert, .value = 0.0});
  }
  Tensor leaving_rows(const Tensor& tokens) override { return tokens; }
  Tensor leaving_numbers(const Tensor& pairs) override { return pairs; }
  void add_up_rows(const Tensor& y, const Tensor& coming) override {
    order_.add_up(pass_, y, coming, saved_);
  }
  void add_up_numbers(const Tensor& pairs, const Tensor& coming) override {
    order_.scatter_numbers(pass_, pairs, coming, saved_);
  }

 private:
  const bool has_rest_;
};

class LocalDispatcher final : public Dispatcher {
 public:
  LocalDispatcher(SavedSlots& slots, const TransformerConfig& config, LastReader last)
      : Dispatcher(config),
        order_(slots, config.experts, {.last = last, .experts = config.experts.experts}) {}

  std::unique_ptr<Dispatch> begin(Pass& pass, const Routing& routing, const Saved& saved,
                                  bool /*recomputes*/) const override {
    order_.sort(pass, routing.experts, saved);
    return resume(pass, saved);
  }
  std::unique_ptr<Dispatch> resume(Pass& pass, const Saved& saved) const override {
    return std::make_unique<LocalDispatch>(pass, saved, order_, settings_.capacity_factor > 0.0);
  }

 private:
  PairOrder order_;
};

}  // namespace

std::unique_ptr<const Dispatcher> make_local_dispatcher(SavedSlots& slots,
                                                        const TransformerConfig& config,
                                                        LastReader last) {
  return std::make_unique<LocalDispatcher>(slots, config, last);
}

std::unique_ptr<const Dispatcher> make_dispatcher(SavedSlots& slots,
                                                  const TransformerConfig& config,
                                                  LastReader last) {
  if (!config.expert_parallel.is_parallel()) return make_local_dispatcher(slots, config, last);
  return config.experts.dispatch == TokenDispatch::kAllGather
             ? make_all_gather_dispatcher(slots, config, last)
             : make_all_to_all_dispatcher(slots, config, last);
}

}  // namespace phalanx::nn
