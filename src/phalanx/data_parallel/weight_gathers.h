#pragma once
// Weights of which every rank of data parallelism keeps a part (ZeRO stage 3; Rajbhandari et al.,
// 2020): a unit's are gathered before its passes, into blocks that are planned with what
// microbatches save, some units ahead, and let go behind them.

#include <map>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/unit_order.h"

namespace phalanx {

class WeightGathers final : public nn::PassStates {
 public:
  // `data`: the ranks that have the parts. All must outlive this.
  WeightGathers(const ParameterStore& parameters, std::vector<UnitOrder> chunks, Communicator& data,
                const GatherOptions& options);

  // What passes read: of what is not here, an empty tensor.
  nn::Weights weights() const { return {weights_}; }
  // Before the passes of a step or an evaluation.
  void begin(Context& context) { context_ = &context; }

  std::vector<SavedBlock> blocks(int chunk, const nn::PassOrder& order) const override;
  void enter(int chunk, const nn::PassOrder& order, bool forward,
             std::span<const Tensor> blocks) override;
  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;

 private:
  const StateLayout& states() const { return parameters_->states(); }
  std::vector<WeightHold> holds(int chunk, const nn::PassOrder& order) const;
  const UnitOrder& units() const { return chunks_[static_cast<std::size_t>(chunk_)]; }
  void gather(std::size_t hold);
  // The group's weights are in the block, or nowhere.
  void show(int group, const Tensor& block);

  const ParameterStore* parameters_;
  std::vector<UnitOrder> chunks_;
  Communicator* data_;
  GatherOptions options_;
  std::vector<bool> is_cut_;  // by group
  std::vector<Tensor> weights_;
  Context* context_ = nullptr;
  // Of the microbatch whose passes run.
  int chunk_ = -1;
  nn::PassOrder order_;
  std::vector<WeightHold> holds_;
  std::vector<Tensor> blocks_;              // by hold
  std::vector<bool> is_there_;              // by hold: passes read it
  std::vector<std::vector<Work>> gathers_;  // by hold: the messages of its buckets
  std::size_t begun_ = 0;                   // holds whose gathers have begun
};

}  // namespace phalanx
