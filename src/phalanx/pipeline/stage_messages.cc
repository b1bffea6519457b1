#include "phalanx/pipeline/stage_messages.h"

#include <utility>

namespace phalanx {
namespace {

std::uint64_t key_of(const Action& action) {
  const auto kind =
      action.payload == Payload::kActivation ? MessageKind::kActivation : MessageKind::kGradient;
  return message_key(kind, static_cast<std::uint32_t>(action.source_stage),
                     static_cast<std::uint32_t>(action.microbatch));
}

}  // namespace

Work StageMessages::begin(Context& context, const TensorRegion& region, const Action& action,
                          PointToPoint::Direction direction, Tensors streams) {
  std::vector<PointToPoint> messages;
  for (const Tensor& stream : streams) {
    messages.push_back({direction, action.peer, key_of(action),
                        region.has_shares(stream.count()) ? region.share(stream) : stream});
  }
  return pipeline_->exchange(context, messages);
}

void StageMessages::send(Context& context, const TensorRegion& region, const Action& action,
                         Tensors streams) {
  sends_.insert_or_assign({action.payload, action.chunk, action.microbatch},
                          begin(context, region, action, PointToPoint::Direction::kSend, streams));
}

void StageMessages::receive(Context& context, const TensorRegion& region, const Action& action,
                            Tensors streams) {
  Receive receive{
      .work = begin(context, region, action, PointToPoint::Direction::kReceive, streams),
      .streams = {}};
  for (const Tensor& stream : streams) {
    if (region.has_shares(stream.count())) receive.streams.push_back(stream);
  }
  receives_.insert_or_assign({action.payload, action.chunk, action.microbatch}, std::move(receive));
}

void StageMessages::await_send(Context& context, const Action& send) {
  const auto found = sends_.find({send.payload, send.chunk, send.microbatch});
  if (found == sends_.end()) return;
  found->second.wait(context.queue);
  sends_.erase(found);
}

void StageMessages::await_receive(Context& context, const TensorRegion& region,
                                  const Action& receive) {
  finish_receive(context, region, {receive.payload, receive.chunk, receive.microbatch});
}

void StageMessages::await_input(Context& context, const TensorRegion& region, const Action& pass) {
  if (expects_input(pass)) finish_receive(context, region, input_of(pass));
}

bool StageMessages::expects_input(const Action& pass) const {
  return pass.kind != ActionKind::kBackwardWeight && receives_.contains(input_of(pass));
}

StageMessages::Id StageMessages::input_of(const Action& pass) {
  const bool forward = pass.kind == ActionKind::kForward;
  return {forward ? Payload::kActivation : Payload::kGradient, pass.chunk, pass.microbatch};
}

// All ranks of a tensor-parallel group run the same list, so they call this in the same order.
void StageMessages::finish_receive(Context& context, const TensorRegion& region, const Id& id) {
  const auto found = receives_.find(id);
  if (found == receives_.end()) return;
  const auto& [work, streams] = found->second;
  work.wait(context.queue);
  for (const Tensor& stream : streams) {
    region.gather_shares(context, stream).wait(context.queue);
  }
  receives_.erase(found);
}

void StageMessages::forget() {
  sends_.clear();
  receives_.clear();
}

}  // namespace phalanx
