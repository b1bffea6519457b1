#pragma once
// The messages between a rank's stages and those of other ranks of the pipeline, from their begin
// until they have been waited for.
//
// Without sequence parallelism all ranks of a tensor-parallel group hold the same activations and
// gradients. Each rank sends its share to the rank with the same place in the other stage's group,
// and that group gathers the shares when it waits for the message; so nothing crosses the pipeline
// twice. A stream that cannot be cut into equal shares is sent whole by every rank.

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/pipeline/action.h"
#include "phalanx/regions/tensor_region.h"

namespace phalanx {

class StageMessages {
 public:
  // `pipeline` is null if no stage is on another rank.
  explicit StageMessages(Communicator* pipeline) : pipeline_(pipeline) {}

  // Begins the message of the action; its streams belong to it until it has been waited for.
  void send(Context& context, const TensorRegion& region, const Action& action, Tensors streams);
  void receive(Context& context, const TensorRegion& region, const Action& action, Tensors streams);

  // Wait, if there is something to wait for: until the streams of a send are free again; until the
  // streams of a receive are there; until the input of a pass is there.
  void await_send(Context& context, const Action& send);
  void await_receive(Context& context, const TensorRegion& region, const Action& receive);
  void await_input(Context& context, const TensorRegion& region, const Action& pass);

  // Whether the input of a pass is being received and has not been waited for.
  bool expects_input(const Action& pass) const;

  // Drops all messages. For rehearsals, in which messages carry nothing.
  void forget();

 private:
  using Id = std::tuple<Payload, int, int>;  // payload, chunk, microbatch
  struct Receive {
    Work work;
    std::vector<Tensor> streams;  // that came as shares
  };

  Work begin(Context& context, const TensorRegion& region, const Action& action,
             PointToPoint::Direction direction, Tensors streams);
  static Id input_of(const Action& pass);
  void finish_receive(Context& context, const TensorRegion& region, const Id& id);

  Communicator* pipeline_;
  std::map<Id, Work> sends_;
  std::map<Id, Receive> receives_;
};

}  // namespace phalanx
