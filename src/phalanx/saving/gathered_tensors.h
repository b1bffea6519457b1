#pragma once
// A run's tensors, which lie on many ranks, as the checkpoint writer wants them: whole and one
// after the other. The first rank of the world writes; it receives some megabytes of rows at a time
// from those who have them, so no rank ever holds a whole tensor that is not its own. Parts that
// several ranks have (copies over data and tensor parallelism) come from the first of them.

#include <functional>
#include <vector>

#include "phalanx/checkpoint/box_copy.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/rank/rank.h"

namespace phalanx {

// One tensor of the checkpoint and what this rank contributes to it.
struct ContributedTensor {
  TensorSource::Info info;
  std::vector<GlobalTensor> parts;
  // Of each part that lies in a file, what brings it to memory until another one is brought; of
  // others, nothing.
  std::vector<std::function<Tensor()>> fetches = {};

  // The part with its elements.
  GlobalTensor part(std::size_t number) const;
};

// In the writer's order: weights, then with the optimizer its states and main parameters. The same
// tensors on every rank. The rank must outlive them.
std::vector<ContributedTensor> contributed_tensors(Rank& rank, bool with_optimizer);

class GatheredTensors final : public TensorSource {
 public:
  // `world`: all ranks, each with its contribution.
  GatheredTensors(std::vector<ContributedTensor> tensors, Communicator& world, Context& context);

  int size() const override { return static_cast<int>(tensors_.size()); }
  const Info& info(int index) const override { return at(index).info; }
  // On the first rank. The others send the whole tensor whatever the visitor does: what it throws
  // comes out when they have.
  void visit(int index, const Visitor& visitor) override;
  // On the first rank, where a save failed: takes what it has not visited, for the others send it.
  void skip_rest();
  // On all others: sends what the first rank visits, until it has visited everything.
  void serve();

 private:
  using Boxes = std::vector<ParamBox>;
  const ContributedTensor& at(int index) const { return tensors_[static_cast<std::size_t>(index)]; }
  // What a rank holds of a tensor, as it says itself.
  Boxes receive_boxes(int peer);
  void send_boxes(const Boxes& boxes);
  void receive(const Tensor& tensor, int peer);
  void send(const Tensor& tensor);

  std::vector<ContributedTensor> tensors_;
  Communicator& world_;
  Context& context_;
  Arena arena_;
  int next_ = 0;  // to visit
};

}  // namespace phalanx
