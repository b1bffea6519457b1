#pragma once
// A chunk is a list of consecutive units that a pipeline stage owns: layers, the embedding in front
// of the first, the head behind the last. It owns no memory: for every microbatch it is handed the
// blocks that saved_blocks() asks for.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/nn/unit.h"

namespace phalanx {

// A point in a microbatch's life on this chunk.
struct PassPoint {
  nn::PassKind pass = nn::PassKind::kForward;
  int unit = 0;
};

// One saved tensor of a microbatch and between which two points it is needed, both included.
struct SavedBlock {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  PassPoint born;
  PassPoint last;
  std::int64_t bytes() const { return shape.count() * size_of(dtype); }
};

class Chunk {
 public:
  explicit Chunk(std::vector<std::unique_ptr<nn::Unit>> units);

  const std::vector<std::unique_ptr<nn::Unit>>& units() const { return units_; }
  int num_units() const { return static_cast<int>(units_.size()); }
  const std::vector<nn::StreamSpec>& inputs() const { return units_.front()->inputs(); }
  const std::vector<nn::StreamSpec>& outputs() const { return units_.back()->outputs(); }

  // In the order the passes expect them. A forward-only microbatch needs nothing beyond its own
  // forward pass.
  std::vector<SavedBlock> saved_blocks(const nn::BatchShape& shape, bool forward_only) const;

  // `blocks` are the tensors of saved_blocks(). Hooks are called around every unit.
  void forward(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
               int microbatch) const;
  void backward_input(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                      int microbatch) const;
  void backward_weight(nn::Pass& pass, std::span<const Tensor> blocks,
                       const nn::Gradients& gradients, nn::UnitHooks& hooks, int microbatch) const;
  // Both, unit by unit: what only the weight pass needs is free again one unit later.
  void backward(nn::Pass& pass, std::span<const Tensor> blocks, const nn::Gradients& gradients,
                nn::UnitHooks& hooks, int microbatch) const;

 private:
  // Where a unit's tensors lie in the blocks: inputs, their gradients, then its own slots.
  struct UnitBlocks {
    std::size_t inputs, input_gradients, slots, outputs, output_gradients;
  };
  void forward_unit(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                    int microbatch, std::size_t unit) const;
  void backward_input_unit(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                           int microbatch, std::size_t unit) const;
  void backward_weight_unit(nn::Pass& pass, std::span<const Tensor> blocks,
                            const nn::Gradients& gradients, nn::UnitHooks& hooks, int microbatch,
                            std::size_t unit) const;

  std::vector<std::unique_ptr<nn::Unit>> units_;
  std::vector<UnitBlocks> places_;
};

}  // namespace phalanx
