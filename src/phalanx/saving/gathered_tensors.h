#pragma once
// A run's tensors lie on many ranks; the checkpoint writer wants them whole, one after the other.
// The first rank of the world writes. It receives some megabytes of rows at a time from the ranks
// that have them, so no rank ever holds a whole tensor that is not its own. Of the ranks that have
// copies of a part one sends it (data_parallel/pieces.h).

#include <functional>
#include <vector>

#include "phalanx/checkpoint/box_copy.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/data_parallel/pieces.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rank/saved_tiles.h"

namespace phalanx {

// One tensor of the checkpoint and what this rank contributes to it.
struct ContributedTensor {
  TensorSource::Info info;
  std::vector<GlobalTensor> parts;
  // By part: reads a part that lies in a file into memory, where it stays until the next one is
  // read. Empty for a part that lies in memory.
  std::vector<std::function<Tensor()>> fetches = {};

  // The part with its elements.
  GlobalTensor part(std::size_t number) const;
};

// In the writer's order: weights, then optimizer states and main parameters (`content`).
// Every rank lists the same tensors. The rank must outlive them.
std::vector<ContributedTensor> contributed_tensors(Rank& rank, SavedContent content,
                                                   Writers writers = Writers::kFirst);

class GatheredTensors final : public TensorSource {
 public:
  // `world`: all ranks, each with its contribution, on a transport for host memory.
  GatheredTensors(std::vector<ContributedTensor> tensors, Communicator& world, Context& context);

  int size() const override { return static_cast<int>(tensors_.size()); }
  const Info& info(int index) const override { return at(index).info; }
  // On the first rank. The other ranks send the whole tensor in any case: if the visitor throws,
  // the exception leaves visit() after they have.
  void visit(int index, const Visitor& visitor) override;
  // On the first rank, after a save failed: receives the tensors that were not visited, because the
  // other ranks send them.
  void skip_rest();
  // On all other ranks: sends what the first rank visits, until it has visited everything.
  void serve();

 private:
  using Boxes = std::vector<ParamBox>;
  const ContributedTensor& at(int index) const { return tensors_[static_cast<std::size_t>(index)]; }
  // The boxes of a tensor that a peer sends.
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
