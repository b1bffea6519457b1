#pragma once
// Gathers of weights that are cut over the data-parallel ranks (ZeRO stage 3; Rajbhandari et al.,
// 2020). Each rank keeps its part in memory or in a file. A unit's weights are gathered some units
// before its passes, into memory that is planned with the saved tensors, and freed after them. A
// single rank reads its weights from the file. Of several ranks each reads its part one moment
// before the gather starts.

#include <map>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/state_observer.h"
#include "phalanx/data_parallel/unit_order.h"

namespace phalanx {

class WeightGathers final : public nn::PassStates {
 public:
  // `data`: the ranks that have the parts; null: this rank has all. All must outlive this.
  WeightGathers(const ParameterStore& parameters, std::vector<UnitOrder> chunks,
                const PerDomain<Communicator*>& data, const GatherOptions& options);

  // The weights for passes; an empty tensor if a weight is not whole now.
  nn::Weights weights() const { return {weights_}; }
  // Before the passes of a step or an evaluation.
  void begin(Context& context) { context_ = &context; }
  // Tells the observer of every move from now on; null: none.
  void observe_with(StateObserver* observer) { observer_ = observer; }

  std::vector<SavedTensor> lent_tensors(int chunk, const nn::PassOrder& order) const override;
  void enter(int chunk, const nn::PassOrder& order, bool forward, Tensors lent) override;
  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;

 private:
  const StateLayout& states() const { return parameters_->states(); }
  // Elements of a group that this rank keeps.
  std::int64_t own_elements(int group) const;
  std::vector<WeightHold> holds(int chunk, const nn::PassOrder& order) const;
  const UnitOrder& units() const { return chunks_[static_cast<std::size_t>(chunk_)]; }
  // Starts to read this rank's part of a group from the file, if it has separate memory.
  void read_own_part(std::size_t hold);
  // Starts to gather a group, or to read it where this rank has all of it.
  void gather(std::size_t hold);
  void read_tiles(std::size_t hold, const Tensor& to);
  // The ranks that have the parts of a group.
  Communicator* data(int group) const { return data_[states().domain(group)]; }
  // Whether this rank's part of a group is read from a file into separate memory.
  bool reads_own_part(int group) const {
    return data(group) != nullptr && parameters_->weight_file() != nullptr;
  }
  // Passes read the group's weights in `whole` from now on; empty: they are freed.
  void set_group_weights(int group, const Tensor& whole);

  const ParameterStore* parameters_;
  std::vector<UnitOrder> chunks_;
  PerDomain<Communicator*> data_;
  GatherOptions options_;
  std::vector<bool> is_cut_;  // by group
  std::vector<Tensor> weights_;
  Context* context_ = nullptr;
  StateObserver* observer_ = nullptr;
  // The microbatch whose passes run:
  int chunk_ = -1;
  nn::PassOrder order_;
  std::vector<WeightHold> holds_;
  std::vector<Tensor> whole_;               // by hold: a group's whole weights
  std::vector<Tensor> own_;                 // by hold: memory for this rank's part, if it reads it
  std::vector<bool> is_there_;              // by hold: passes may read it
  std::vector<std::vector<Work>> reads_;    // by hold: of its tiles
  std::vector<std::vector<Work>> gathers_;  // by hold: the messages of its buckets
  std::size_t begun_ = 0;                   // this many gathers have started
  std::size_t read_ = 0;                    // of this many, own parts are being read
};

}  // namespace phalanx
