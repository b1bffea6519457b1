#include "phalanx/pipeline/executor.h"

#include <map>
#include <utility>

#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

std::vector<std::vector<SavedBlock>> blocks_of(const std::vector<ChunkTables>& chunks,
                                               const nn::BatchShape& shape, bool forward_only) {
  std::vector<std::vector<SavedBlock>> blocks;
  for (const auto& tables : chunks) {
    blocks.push_back(tables.chunk->saved_blocks(shape, forward_only));
  }
  return blocks;
}

Program verified(Program program) {
  verify(program);
  return program;
}

}  // namespace

Executor::Executor(Program program, std::vector<ChunkTables> chunks, const nn::BatchShape& shape)
    : program_(verified(std::move(program))),
      chunks_(std::move(chunks)),
      blocks_(blocks_of(chunks_, shape, program_.forward_only)),
      plan_(program_, blocks_) {}

std::span<const Tensor> Executor::place(const Action& action, Arena& saved) {
  const auto& blocks = blocks_[static_cast<std::size_t>(action.chunk)];
  const auto offsets = plan_.offsets(action.chunk, action.microbatch);
  placed_.clear();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    placed_.push_back(saved.place(offsets[i], blocks[i].dtype, blocks[i].shape));
  }
  return placed_;
}

void Executor::run(Context& context, Arena& saved, const StepSettings& settings,
                   StepServices& services, nn::UnitHooks& hooks) {
  for (const Action& action : program_.actions) {
    execute(action, context, saved, settings, services, hooks);
  }
}

Executor::Rehearsal Executor::rehearse(Context& context, Arena& saved, const StepSettings& settings,
                                       StepServices& services, nn::UnitHooks& hooks) {
  PHALANX_CHECK(context.recorder != nullptr, "a rehearsal needs a recorder");
  saved.place(0, DType::kU8, {plan_.bytes()});
  struct Seen {
    std::int64_t flops = 0;
    std::vector<Message> messages;
  };
  std::map<std::tuple<ActionKind, int, bool>, Seen> seen;
  Rehearsal total;
  for (const Action& action : program_.actions) {
    const bool last = action.microbatch == program_.microbatches - 1;
    const auto [known, is_new] = seen.try_emplace({action.kind, action.chunk, last});
    if (is_new) {
      context.recorder->clear();
      execute(action, context, saved, settings, services, hooks);
      known->second = {context.recorder->flops(), context.recorder->messages()};
    }
    total.flops += known->second.flops;
    total.messages.add(known->second.messages);
  }
  return total;
}

void Executor::execute(const Action& action, Context& context, Arena& saved,
                       const StepSettings& settings, StepServices& services, nn::UnitHooks& hooks) {
  if (action.kind == ActionKind::kReduceGradients) {
    services.reduce_gradients(action.chunk);
    return;
  }
  if (action.kind == ActionKind::kOptimizerStep) {
    services.optimizer_step();
    return;
  }
  const ChunkTables& tables = chunks_[static_cast<std::size_t>(action.chunk)];
  const nn::Batch& batch = action.kind == ActionKind::kForward ? services.load(action.microbatch)
                                                               : services.loaded(action.microbatch);
  nn::Pass pass{.ops = context,
                .weights = tables.weights,
                .batch = batch,
                .shape = settings.shape,
                .region = settings.region,
                .training = settings.training,
                .loss_settings = settings.loss,
                .losses = settings.sums,
                .cache = nullptr,
                .logits = {}};
  const auto blocks = place(action, saved);
  switch (action.kind) {
    case ActionKind::kForward:
      return tables.chunk->forward(pass, blocks, hooks, action.microbatch);
    case ActionKind::kBackward:
      return tables.chunk->backward(pass, blocks, tables.gradients, hooks, action.microbatch);
    case ActionKind::kBackwardInput:
      return tables.chunk->backward_input(pass, blocks, hooks, action.microbatch);
    case ActionKind::kBackwardWeight:
      return tables.chunk->backward_weight(pass, blocks, tables.gradients, hooks,
                                           action.microbatch);
    case ActionKind::kReduceGradients:
    case ActionKind::kOptimizerStep:
      return;
  }
}

}  // namespace phalanx
