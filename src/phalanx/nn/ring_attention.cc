#include "phalanx/nn/ring_attention.h"

#include <algorithm>
#include <array>

#include "phalanx/nn/context_rows.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

using Direction = PointToPoint::Direction;

// A message to one rank and one from another, of one step.
Work exchange(Pass& pass, Communicator& ring, MessageKind kind, int step, const PointToPoint& send,
              const PointToPoint& receive) {
  std::array messages = {send, receive};
  for (PointToPoint& message : messages) {
    message.key = message_key(kind, static_cast<std::uint32_t>(step), 0);
    message.peer = (message.peer + ring.size()) % ring.size();
  }
  return ring.exchange(pass.ops, messages);
}

// Keys and values on their way round: two buffers, by turns the present block and the next one.
class Blocks {
 public:
  Blocks(Pass& pass, Communicator& ring, const RingInputs& inputs)
      : pass_(pass), ring_(ring), inputs_(inputs) {
    const ops::AttentionInputs& own = inputs.own;
    const Shape& keys = own.key.shape;
    for (Tensor& block : blocks_) {
      block = pass.scratch(own.key.dtype, {2, keys[0], keys[1], keys[2], keys[3]});
    }
    ops::copy(pass.ops, {.destination = blocks_[0].select(0, 0), .source = own.key});
    ops::copy(pass.ops, {.destination = blocks_[0].select(0, 1), .source = own.value});
  }

  // Starts to pass the block of `step` on and to receive the next one. The block of the step before
  // must have been used.
  Work start_next(int step) {
    if (step + 1 == ring_.size()) return {};
    return exchange(pass_, ring_, MessageKind::kActivation, step,
                    {Direction::kSend, ring_.rank() + 1, 0, of(step)},
                    {Direction::kReceive, ring_.rank() - 1, 0, of(step + 1)});
  }

  // Attention of the own queries to the block.
  ops::AttentionInputs inputs(int step) const {
    const int source = ring_source(ring_.rank(), step, ring_.size());
    ops::AttentionInputs in = inputs_.own;
    const std::int64_t rows = in.key.shape[0];
    in.key = of(step).select(0, 0);
    in.value = of(step).select(0, 1);
    in.key_rows = slice_places(inputs_.ring_rows, source * rows, rows);
    return in;
  }

 private:
  const Tensor& of(int step) const { return blocks_[static_cast<std::size_t>(step % 2)]; }

  Pass& pass_;
  Communicator& ring_;
  const RingInputs& inputs_;
  std::array<Tensor, 2> blocks_;
};

// The gradients of blocks of other ranks, on their way to these.
class Partials {
 public:
  Partials(Pass& pass, Communicator& ring, const Tensor& own)
      : pass_(pass), ring_(ring), own_(own) {
    incoming_ = pass.scratch(own.dtype, own.shape);
    for (int i = 0; i < std::min(2, ring.size() - 1); ++i) {
      outgoing_[static_cast<std::size_t>(i)] = pass.scratch(own.dtype, own.shape);
    }
  }

  // Where the gradients of the step's block go.
  const Tensor& of(int step) const {
    return step == 0 ? own_ : outgoing_[static_cast<std::size_t>((step - 1) % 2)];
  }
  // Sends the step's gradients to the block's owner, while this rank's come from its step.
  void start(int step) {
    if (step == 0) return;
    finish();
    under_way_ = exchange(pass_, ring_, MessageKind::kGradient, step,
                          {Direction::kSend, ring_.rank() - step, 0, of(step)},
                          {Direction::kReceive, ring_.rank() + step, 0, incoming_});
    is_under_way_ = true;
  }
  // Adds what has come.
  void finish() {
    if (!is_under_way_) return;
    pass_.finish(under_way_);
    ops::accumulate(pass_.ops, {.destination = own_, .source = incoming_});
    is_under_way_ = false;
  }

 private:
  Pass& pass_;
  Communicator& ring_;
  Tensor own_;
  Tensor incoming_;
  std::array<Tensor, 2> outgoing_;
  Work under_way_;
  bool is_under_way_ = false;
};

}  // namespace

void ring_attention_forward(Pass& pass, Communicator& ring, const Tensor& out, const Tensor& lse,
                            const RingInputs& inputs) {
  const WorkspaceScope scope(pass.ops.workspace);
  Blocks blocks(pass, ring, inputs);
  const Tensor part_out = pass.scratch(out.dtype, out.shape);
  const Tensor part_lse = pass.scratch(lse.dtype, lse.shape);
  for (int step = 0; step < ring.size(); ++step) {
    const Work next = blocks.start_next(step);
    const bool first = step == 0;
    ops::attention_forward(
        pass.ops,
        {.out = first ? out : part_out, .lse = first ? lse : part_lse, .in = blocks.inputs(step)});
    if (!first) {
      ops::attention_merge(pass.ops,
                           {.out = out, .lse = lse, .part_out = part_out, .part_lse = part_lse});
    }
    pass.finish(next);
  }
}

void ring_attention_backward(Pass& pass, Communicator& ring, const RingGradients& gradients,
                             const Tensor& dout, const Tensor& lse, const Tensor& delta,
                             const RingInputs& inputs) {
  const WorkspaceScope scope(pass.ops.workspace);
  Blocks blocks(pass, ring, inputs);
  Partials partials(pass, ring, gradients.key_and_value);
  for (int step = 0; step < ring.size(); ++step) {
    const Work next = blocks.start_next(step);
    ops::attention_backward(pass.ops, {.dquery = gradients.query,
                                       .dkey = partials.of(step).select(0, 0),
                                       .dvalue = partials.of(step).select(0, 1),
                                       .dbias = {},
                                       .dout = dout,
                                       .lse = lse,
                                       .delta = delta,
                                       .in = blocks.inputs(step),
                                       .adds_to_dquery = step > 0});
    partials.start(step);
    pass.finish(next);
  }
  partials.finish();
}

}  // namespace phalanx::nn
