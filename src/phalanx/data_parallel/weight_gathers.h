#pragma once
// Weights of which every rank of data parallelism keeps a part (ZeRO stage 3; Rajbhandari et al.,
// 2020), in memory or in a file: a unit's are gathered before its passes, into blocks that are
// planned with what microbatches save, some units ahead, and let go behind them. Of one rank they
// come from the file straight; of several each reads its part a moment before they are gathered.

#include <map>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/state_observer.h"
#include "phalanx/data_parallel/unit_order.h"

namespace phalanx {

class WeightGathers final : public nn::PassStates {
 public:
  // `data`: the ranks that have the parts; null: this one has all of them. All must outlive this.
  WeightGathers(const ParameterStore& parameters, std::vector<UnitOrder> chunks, Communicator* data,
                const GatherOptions& options);

  // What passes read: of what is not here, an empty tensor.
  nn::Weights weights() const { return {weights_}; }
  // Before the passes of a step or an evaluation.
  void begin(Context& context) { context_ = &context; }
  // Is told from now on; null: nobody.
  void observe_with(StateObserver* observer) { observer_ = observer; }

  std::vector<SavedTensor> lent_tensors(int chunk, const nn::PassOrder& order) const override;
  void enter(int chunk, const nn::PassOrder& order, bool forward,
             std::span<const Tensor> blocks) override;
  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;

 private:
  const StateLayout& states() const { return parameters_->states(); }
  // What this rank keeps of a group.
  std::int64_t own_elements(int group) const;
  std::vector<WeightHold> holds(int chunk, const nn::PassOrder& order) const;
  const UnitOrder& units() const { return chunks_[static_cast<std::size_t>(chunk_)]; }
  // Reads what lies in a file, into the block of its own or that of the whole.
  void read(std::size_t hold);
  void gather(std::size_t hold);
  // Whether own parts have blocks of their own, that a file is read into.
  bool has_own_blocks() const { return data_ != nullptr && parameters_->weight_file() != nullptr; }
  // The group's weights are in the block, or nowhere.
  void show(int group, const Tensor& block);

  const ParameterStore* parameters_;
  std::vector<UnitOrder> chunks_;
  Communicator* data_;
  GatherOptions options_;
  std::vector<bool> is_cut_;  // by group
  std::vector<Tensor> weights_;
  Context* context_ = nullptr;
  StateObserver* observer_ = nullptr;
  // Of the microbatch whose passes run.
  int chunk_ = -1;
  nn::PassOrder order_;
  std::vector<WeightHold> holds_;
  std::vector<Tensor> blocks_;              // by hold
  std::vector<Tensor> own_;                 // by hold: room for own parts that come from a file
  std::vector<bool> is_there_;              // by hold: passes read it
  std::vector<std::vector<Work>> reads_;    // by hold: of its tiles
  std::vector<std::vector<Work>> gathers_;  // by hold: the messages of its buckets
  std::size_t begun_ = 0;                   // holds whose gathers have begun
  std::size_t read_ = 0;                    // and those whose parts have begun to come
};

}  // namespace phalanx
