// All ranks gather the tokens of all, and each sorts out the pairs of its experts. Sizes are known
// beforehand, so nothing is read on the host; memory is that of the most rows that there can be.

#include <utility>

#include "phalanx/nn/dispatch_in_place.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

// `tensor` of all ranks, one behind the other along dimension 0, in scratch.
Tensor gathered(Pass& pass, const Tensor& tensor) {
  Communicator& all = pass.expert_region.all();
  Shape shape = tensor.shape;
  shape[0] *= all.size();
  const Tensor whole = pass.scratch(tensor.dtype, shape);
  pass.finish(all.all_gather(pass.ops, whole, tensor));
  return whole;
}

class AllGatherDispatch final : public DispatchInPlace {
 public:
  using DispatchInPlace::DispatchInPlace;

  void clear_rest(int /*round*/, const Tensor& at_expert) override {
    ops::fill(pass_.ops, {.x = at_expert, .value = 0.0});
  }
  Tensor leaving_rows(const Tensor& tokens) override { return gathered(pass_, tokens); }
  Tensor leaving_numbers(const Tensor& pairs) override { return gathered(pass_, pairs); }
  void add_up_rows(const Tensor& y, const Tensor& coming) override {
    reduce(y, [&](const Tensor& whole) { order_.add_up(pass_, whole, coming, saved_); });
  }
  void add_up_numbers(const Tensor& pairs, const Tensor& coming) override {
    reduce(pairs,
           [&](const Tensor& whole) { order_.scatter_numbers(pass_, whole, coming, saved_); });
  }

 private:
  // own = this rank's part of the sum of what `make` writes for the tokens of all ranks.
  template <typename Make>
  void reduce(const Tensor& own, const Make& make) {
    const WorkspaceScope scope(pass_.ops.workspace);
    Communicator& all = pass_.expert_region.all();
    Shape shape = own.shape;
    shape[0] *= all.size();
    const Tensor whole = pass_.scratch(own.dtype, shape);
    make(whole);
    pass_.finish(all.reduce_scatter(pass_.ops, own, whole, Reduction::kSum));
  }
};

class AllGatherDispatcher final : public Dispatcher {
 public:
  AllGatherDispatcher(SavedSlots& slots, const TransformerConfig& config, LastReader last)
      : Dispatcher(config),
        order_(slots, config.experts,
               {.last = last,
                .is_kept = true,
                .ranks = std::int64_t{layout_.size} * layout_.tensor_size,
                .first = layout_.first_expert(settings_.experts),
                .experts = layout_.local_experts(settings_.experts)}) {}

  std::unique_ptr<Dispatch> begin(Pass& pass, const Routing& routing, const Saved& saved,
                                  bool recomputes) const override {
    if (!recomputes) {
      const WorkspaceScope scope(pass.ops.workspace);
      order_.sort(pass, gathered(pass, routing.experts), saved);
    }
    return resume(pass, saved);
  }
  std::unique_ptr<Dispatch> resume(Pass& pass, const Saved& saved) const override {
    return std::make_unique<AllGatherDispatch>(pass, saved, order_);
  }

 private:
  PairOrder order_;
};

}  // namespace

std::unique_ptr<const Dispatcher> make_all_gather_dispatcher(SavedSlots& slots,
                                                             const TransformerConfig& config,
                                                             LastReader last) {
  return std::make_unique<AllGatherDispatcher>(slots, config, last);
}

}  // namespace phalanx::nn
