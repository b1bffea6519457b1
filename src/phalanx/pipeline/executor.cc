#include "phalanx/pipeline/executor.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

std::vector<nn::PassOrder> orders_of(const Program& program) {
  std::vector<nn::PassOrder> orders(static_cast<std::size_t>(program.chunks),
                                    {program.forward_only, !program.forward_only});
  std::vector<const Action*> before(orders.size(), nullptr);
  for (const Action& action : program.actions) {
    if (!is_pass(action.kind)) continue;
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const bool follows = before[chunk] != nullptr && before[chunk]->kind == ActionKind::kForward &&
                         before[chunk]->microbatch == action.microbatch;
    if (action.kind != ActionKind::kForward && !follows) orders[chunk].backward_follows = false;
    before[chunk] = &action;
  }
  return orders;
}

std::array<std::vector<std::size_t>, 2> place_indices_of(
    const std::vector<SavedTensor>& tensors, const std::vector<OffloadedTensor>& offloaded) {
  std::vector<std::size_t> first(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    first[i] = tensors[i].same_as < 0 ? i : static_cast<std::size_t>(tensors[i].same_as);
  }
  std::vector<std::size_t> second = first;
  for (const OffloadedTensor& tensor : offloaded)
    std::ranges::replace(second, tensor.first, tensor.second);
  return {std::move(first), std::move(second)};
}

StepTimer send_timer(bool forward) {
  return forward ? StepTimer::kForwardSend : StepTimer::kBackwardSend;
}

StepTimer receive_timer(bool forward) {
  return forward ? StepTimer::kForwardReceive : StepTimer::kBackwardReceive;
}

}  // namespace

nn::Weights StepServices::stale_weights(int version) {
  throw InternalError("weights of version {} were not kept", version);
}

void StepServices::reduce_gradients(int chunk) {
  throw InternalError("chunk {} has no gradients", chunk);
}

void StepServices::optimizer_step(int version) {
  throw InternalError("this run has no optimizer step (version {})", version);
}

void StepServices::gather_parameters() {
  throw InternalError("this run does not gather parameters");
}

Executor::Executor(Program program, std::vector<ChunkTables> chunks, const nn::BatchShapes& shapes,
                   Communicator* pipeline, SavedPlans* plans, SavedFiles* files)
    : program_(std::move(program)),
      chunks_(std::move(chunks)),
      orders_(orders_of(program_)),
      files_(files),
      batch_slots_(program_),
      messages_(pipeline) {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    auto tensors = chunks_[c].chunk->saved_tensors(shapes, orders_[c].forward_only);
    own_count_.push_back(tensors.size());
    std::vector<std::size_t>& lent = lent_counts_.emplace_back();
    for (const nn::PassStates* states : chunks_[c].states) {
      const auto more = states->lent_tensors(static_cast<int>(c), orders_[c]);
      lent.push_back(more.size());
      tensors.insert(tensors.end(), more.begin(), more.end());
    }
    offloaded_.emplace_back();
    if (files_ != nullptr) {
      offloaded_[c] =
          split_lives(tensors, chunks_[c].chunk->num_units(), orders_[c], files_->smallest());
    }
    placed_.emplace_back(tensors.size());
    place_indices_.push_back(place_indices_of(tensors, offloaded_[c]));
    tensors_.push_back(std::move(tensors));
  }
  if (files_ != nullptr) {
    file_slots_ = file_slots(program_);
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      files_->reserve(static_cast<int>(c), tensors_[c], offloaded_[c],
                      1 + std::ranges::max(file_slots_[c]));
    }
  }
  plan_ = plans != nullptr ? plans->plan(program_, tensors_)
                           : std::make_shared<const SavedPlan>(program_, tensors_);
}

Tensors Executor::place(int chunk, int microbatch, Arena& saved, Life life) {
  const auto& tensors = tensors_[static_cast<std::size_t>(chunk)];
  auto& placed = placed_[static_cast<std::size_t>(chunk)];
  const auto offsets = plan_->offsets(chunk, microbatch);
  const auto& place_indices =
      place_indices_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(life)];
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    placed[i] = saved.place(offsets[place_indices[i]], tensors[i].dtype, tensors[i].shape);
  }
  return placed;
}

void Executor::run(Context& context, Arena& saved, const StepSettings& settings,
                   StepServices& services, nn::UnitHooks& hooks, PassObserver* observer) {
  Run run{.context = context,
          .saved = saved,
          .settings = settings,
          .services = services,
          .hooks = hooks,
          .timers = services.timers(),
          .observer = observer};
  for (std::size_t i = 0; i < program_.actions.size(); ++i) {
    if (program_.forward_only && services.is_given_up(program_.actions[i].microbatch)) continue;
    execute(i, run);
  }
}

std::vector<bool> Executor::completing_actions() const {
  std::vector<bool> completing(program_.actions.size(), false);
  std::vector<bool> reduces_next(chunks_.size(), false);
  for (std::size_t i = program_.actions.size(); i-- > 0;) {
    const Action& action = program_.actions[i];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    if (action.kind == ActionKind::kReduceGradients) reduces_next[chunk] = true;
    if (!adds_weight_gradient(action.kind)) continue;
    completing[i] = reduces_next[chunk];
    reduces_next[chunk] = false;
  }
  return completing;
}

std::size_t Executor::most_numbers() const {
  constexpr std::size_t kFlags = 8;  // of three answers
  constexpr auto kKinds = static_cast<std::size_t>(ActionKind::kGatherParameters) + 1;
  constexpr auto kPayloads = static_cast<std::size_t>(Payload::kGradient) + 1;
  return kKinds * kPayloads * kFlags * chunks_.size();
}

std::vector<std::size_t> Executor::numbers_of_actions() const {
  const std::size_t of_a_chunk = most_numbers() / chunks_.size();
  const std::vector<bool> completing = completing_actions();
  std::vector<bool> has_gradients(chunks_.size(), false);
  std::vector<std::size_t> numbers;
  numbers.reserve(program_.actions.size());
  for (std::size_t i = 0; i < program_.actions.size(); ++i) {
    const Action& action = program_.actions[i];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const bool has_gradient = adds_weight_gradient(action.kind);
    const bool loads = is_pass(action.kind) && batch_slots_.is_first_pass(i, action.microbatch);
    const bool adds = has_gradient && has_gradients[chunk];
    const auto kind =
        2 * static_cast<std::size_t>(action.kind) + static_cast<std::size_t>(action.payload);
    numbers.push_back(chunk * of_a_chunk + 8 * kind + (loads ? 4U : 0U) +
                      (completing[i] ? 2U : 0U) + (adds ? 1U : 0U));
    if (has_gradient) has_gradients[chunk] = true;
  }
  return numbers;
}

std::vector<bool> Executor::distinct_actions() const {
  std::vector<bool> distinct(most_numbers(), false);
  for (const std::size_t number : numbers_of_actions()) distinct[number] = true;
  return distinct;
}

Executor::Rehearsal Executor::rehearse(Context& context, Arena& saved, const StepSettings& settings,
                                       StepServices& services, nn::UnitHooks& hooks,
                                       std::vector<Trace>* traces) {
  PHALANX_CHECK(context.recorder != nullptr, "a rehearsal needs a recorder");
  saved.place(0, DType::kU8, {plan_->bytes()});
  struct Seen {
    std::int64_t flops = 0;
    MessageTotals messages;
    TransferTotals transfers;
    std::int64_t times = 0;
  };
  const std::vector<std::size_t> numbers = numbers_of_actions();
  std::vector<Seen> seen(most_numbers());
  if (traces != nullptr) traces->resize(seen.size());
  Run run{.context = context,
          .saved = saved,
          .settings = settings,
          .services = services,
          .hooks = hooks,
          .is_rehearsal = true};
  for (std::size_t i = 0; i < program_.actions.size(); ++i) {
    Seen& alike = seen[numbers[i]];
    if (++alike.times > 1) continue;
    const Action& action = program_.actions[i];
    context.recorder->clear();
    run.version = action.version;  // older weights would be recorded in the same way
    execute(i, run);
    // The pass that would wait for it may not run, so it is completed at once.
    if (action.kind == ActionKind::kReceive) {
      messages_.await_receive(context, settings.region, action);
    }
    alike.flops = context.recorder->flops();
    alike.messages.add(context.recorder->messages());
    alike.transfers.add(context.recorder->transfers());
    if (traces != nullptr) (*traces)[numbers[i]] = context.recorder->events();
  }
  messages_.forget();
  Rehearsal total;
  for (const Seen& action : seen) {
    total.flops += action.times * action.flops;
    total.messages.add(action.messages, action.times);
    total.transfers.add(action.transfers, action.times);
  }
  return total;
}

void Executor::execute(std::size_t index, Run& run) {
  const Action& action = program_.actions[index];
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
      return execute_pass(index, run);
    case ActionKind::kSend:
      return send(action, run);
    case ActionKind::kAwaitSend:
      return await_send(action, run);
    case ActionKind::kReceive:
      return receive(action, run);
    case ActionKind::kHandOver:
      return hand_over(action, run);
    case ActionKind::kReduceGradients:
      return run.services.reduce_gradients(action.chunk);
    case ActionKind::kOptimizerStep:
      if (run.observer != nullptr) run.observer->update_begins();
      run.services.optimizer_step(action.version);
      if (run.observer != nullptr) run.observer->update_ends();
      run.version = action.version;
      return;
    case ActionKind::kGatherParameters:
      return run.services.gather_parameters();
  }
}

void Executor::execute_pass(std::size_t index, Run& run) {
  const Action& action = program_.actions[index];
  await_input(action, run);
  if (run.observer != nullptr) run.observer->begin(action);
  const bool loads = batch_slots_.is_first_pass(index, action.microbatch);
  const nn::Batch& batch =
      loads ? load(action.microbatch, run) : run.services.loaded(action.microbatch);
  const nn::Weights weights = action.version == run.version
                                  ? chunks_[static_cast<std::size_t>(action.chunk)].weights
                                  : run.services.stale_weights(action.version);
  nn::Pass pass{.ops = run.context,
                .weights = weights,
                .batch = batch,
                .shapes = run.settings.shapes,
                .region = run.settings.region,
                .context = run.settings.context,
                .expert_region = run.settings.experts,
                .training = run.settings.training,
                .loss_settings = run.settings.loss,
                .losses = run.services.losses(action.microbatch),
                .auxiliary = run.services.auxiliary_losses(action.microbatch),
                .router_counts = run.services.router_counts(action.microbatch),
                .constants = run.settings.constants};
  compute(action, pass, run);
  if (run.observer != nullptr) run.observer->end(action);
}

void Executor::compute(const Action& action, nn::Pass& pass, Run& run) {
  const ChunkTables& tables = chunks_[static_cast<std::size_t>(action.chunk)];
  const bool is_forward = action.kind == ActionKind::kForward;
  const auto tensors =
      place(action.chunk, action.microbatch, run.saved, is_forward ? Life::kFirst : Life::kSecond);
  const int microbatch = action.microbatch;
  enter(action, tensors, run);
  const TimerScope time(run.timers,
                        is_forward ? StepTimer::kForwardCompute : StepTimer::kBackwardCompute);
  switch (action.kind) {
    case ActionKind::kForward:
      return tables.chunk->forward(pass, tensors, run.hooks, microbatch);
    case ActionKind::kBackward:
      return tables.chunk->backward(pass, tensors, tables.gradients, run.hooks, microbatch);
    case ActionKind::kBackwardInput:
      return tables.chunk->backward_input(pass, tensors, run.hooks, microbatch);
    case ActionKind::kBackwardWeight:
      return tables.chunk->backward_weight(pass, tensors, tables.gradients, run.hooks, microbatch);
    default:
      PHALANX_CHECK(false, "{} is not a pass", to_string(action));
  }
}

void Executor::enter(const Action& action, Tensors tensors, Run& run) const {
  const auto chunk = static_cast<std::size_t>(action.chunk);
  const bool is_forward = action.kind == ActionKind::kForward;
  const std::vector<std::size_t>& lent = lent_counts_[chunk];
  auto rest = tensors.subspan(own_count_[chunk]);
  for (std::size_t i = 0; i < lent.size(); ++i) {
    chunks_[chunk].states[i]->enter(action.chunk, orders_[chunk], is_forward, rest.first(lent[i]));
    rest = rest.subspan(lent[i]);
  }
  if (files_ == nullptr) return;
  const auto microbatch = static_cast<std::size_t>(action.microbatch);
  files_->enter({.context = &run.context,
                 .chunk = chunks_[chunk].chunk,
                 .index = action.chunk,
                 .slot = run.is_rehearsal ? 0 : file_slots_[chunk][microbatch],
                 .forward = is_forward,
                 .offloaded = offloaded_[chunk],
                 .tensors = tensors});
}

const nn::Batch& Executor::load(int microbatch, Run& run) {
  const TimerScope time(run.timers, StepTimer::kBatchGenerator);
  return run.services.load(microbatch);
}

void Executor::await_input(const Action& pass, Run& run) {
  if (!messages_.expects_input(pass)) return;
  const TimerScope time(run.timers, receive_timer(pass.kind == ActionKind::kForward));
  messages_.await_input(run.context, run.settings.region, pass);
}

void Executor::await_send(const Action& action, Run& run) {
  const TimerScope time(run.timers, send_timer(action.payload == Payload::kActivation));
  messages_.await_send(run.context, action);
}

void Executor::send(const Action& action, Run& run) {
  const auto tensors = place(action.chunk, action.microbatch, run.saved);
  const Chunk& from = chunk(action.chunk);
  const bool forward = action.payload == Payload::kActivation;
  const TimerScope time(run.timers, send_timer(forward));
  messages_.send(run.context, run.settings.region, action,
                 forward ? from.output_streams(tensors) : from.input_gradients(tensors));
}

void Executor::receive(const Action& action, Run& run) {
  const auto tensors = place(action.chunk, action.microbatch, run.saved);
  const Chunk& to = chunk(action.chunk);
  const bool forward = action.payload == Payload::kActivation;
  const TimerScope time(run.timers, receive_timer(forward));
  messages_.receive(run.context, run.settings.region, action,
                    forward ? to.input_streams(tensors) : to.output_gradients(tensors));
}

void Executor::hand_over(const Action& action, Run& run) {
  const auto source_tensors = place(action.chunk, action.microbatch, run.saved);
  const auto destination_tensors = place(action.peer, action.microbatch, run.saved);
  const bool forward = action.payload == Payload::kActivation;
  const auto source = forward ? chunk(action.chunk).output_streams(source_tensors)
                              : chunk(action.chunk).input_gradients(source_tensors);
  const auto destination = forward ? chunk(action.peer).input_streams(destination_tensors)
                                   : chunk(action.peer).output_gradients(destination_tensors);
  PHALANX_CHECK(source.size() == destination.size(), "{} streams do not fit {}", source.size(),
                destination.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    ops::copy(run.context, {.destination = destination[i], .source = source[i]});
  }
}

}  // namespace phalanx
