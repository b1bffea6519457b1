#pragma once
// What a rank's stages send to those of other ranks of the pipeline and receive from them, while it
// is under way.
//
// Without sequence parallelism all ranks of a tensor-parallel group hold the same activations and
// the same gradients of them. Each sends its share, to the rank that has its place in the group of
// the other stage, and that group gathers the shares where the message is waited for; so nothing
// crosses the pipeline twice. A stream that has no equal shares is sent whole by every rank.

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
  // `pipeline` is null where no stage is on another rank.
  explicit StageMessages(Communicator* pipeline) : pipeline_(pipeline) {}

  // The message of the action begins; its streams belong to it until it has been waited for.
  void send(Context& context, const TensorRegion& region, const Action& action,
            std::span<const Tensor> streams);
  void receive(Context& context, const TensorRegion& region, const Action& action,
               std::span<const Tensor> streams);

  // Wait, where there is something to wait for: until the streams of a send are free again; until
  // those of a receive are all there; until those are that a pass reads.
  void await_send(Context& context, const Action& send);
  void await_receive(Context& context, const TensorRegion& region, const Action& receive);
  void await_input(Context& context, const TensorRegion& region, const Action& pass);

  // Whether what a pass reads is or was under way, and nothing has waited for it.
  bool expects_input(const Action& pass) const;

  // Of messages that carry nothing: none is under way any more.
  void forget();

 private:
  using Id = std::tuple<Payload, int, int>;  // payload, chunk, microbatch
  struct Receive {
    Work work;
    std::vector<Tensor> streams;  // that came as shares
  };

  Work begin(Context& context, const TensorRegion& region, const Action& action,
             PointToPoint::Direction direction, std::span<const Tensor> streams);
  static Id input_of(const Action& pass);
  void finish_receive(Context& context, const TensorRegion& region, const Id& id);

  Communicator* pipeline_;
  std::map<Id, Work> sends_;
  std::map<Id, Receive> receives_;
};

}  // namespace phalanx
