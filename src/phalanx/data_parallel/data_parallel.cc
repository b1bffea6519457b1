#include "phalanx/data_parallel/data_parallel.h"

#include <algorithm>

#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

std::vector<int> shared_index(const nn::ParamTable& table, const std::vector<SharedSum>& shared) {
  std::vector<int> index(table.specs().size(), -1);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    index[static_cast<std::size_t>(shared[i].id)] = static_cast<int>(i);
  }
  return index;
}

bool sums_over_tensor_ranks(const ParamSpec& spec) {
  return spec.trainable && spec.summed_over.has(Axis::kTensor);
}

}  // namespace

DataParallel::DataParallel(const ParameterStore& parameters, GradientStore& gradients,
                           std::vector<int> uses, const ReductionGroups& groups,
                           const TensorRegion& region, const DataParallelOptions& options,
                           Arena& communication, std::vector<UnitOrder> chunks)
    : parameters_(&parameters),
      gradients_(&gradients),
      chunks_(std::move(chunks)),
      uses_(std::move(uses)),
      groups_(groups),
      region_(region),
      options_(options),
      shared_of_(shared_index(parameters.table(), gradients.shared())),
      reductions_(states().buckets().size()),
      started_(states().buckets().size()),
      shared_(gradients.shared().size()),
      gathers_(states().buckets().size()) {
  for (const UnitOrder& units : chunks_) holds_.push_back(gradient_holds(units));
  for (const ReductionDomain domain : kReductionDomains) {
    PHALANX_CHECK(!states().is_sharded(domain) || groups.data[domain] != nullptr,
                  "a shard of one rank");
  }
  for (const SharedSum& sum : gradients.shared()) {
    const Communicator* group = group_of(sum);
    PHALANX_CHECK((group != nullptr ? group->size() : 1) == sum.holders,
                  "{} is shared by {} ranks, of which {} sum it", parameters.table()[sum.id].name,
                  sum.holders, group != nullptr ? group->size() : 1);
  }
  const nn::ParamTable& table = parameters.table();
  std::vector<std::int64_t> places(table.specs().size(), 0);
  std::int64_t count = 0;
  for (ParamId id = 0; id < table.size(); ++id) {
    if (!sums_over_tensor_ranks(table[id])) continue;
    places[static_cast<std::size_t>(id)] = count;
    count += table[id].local_shape.count();
  }
  for (const Segment& segment : states().segments()) {
    if (!sums_over_tensor_ranks(table[segment.id])) continue;
    sequence_partial_.push_back(
        {segment, places[static_cast<std::size_t>(segment.id)] + segment.begin});
  }
  if (count > 0) coalesced_ = communication.allocate(gradients.dtype(), {count});
  for (ParamId id = 0; id < table.size(); ++id) {
    const std::int64_t common = common_count(table[id]);
    if (common == 0 || !table.trains(id)) continue;
    PHALANX_CHECK(
        groups_.box_holders != nullptr && groups_.box_holders->size() == most_holders(table[id]),
        "{}: {} ranks have boxes of it, of which {} sum them", table[id].name,
        most_holders(table[id]), groups_.box_holders != nullptr ? groups_.box_holders->size() : 1);
    common_.push_back({id, table[id].local_shape.count() - common, common});
  }
  if (!states().cuts_gradients() || common_.empty()) return;
  const std::int64_t room = std::ranges::max_element(common_, {}, &Common::count)->count;
  common_sum_ = communication.allocate(gradients.dtype(), {room});
}

void DataParallel::begin(Context& context, int last_microbatch) {
  context_ = &context;
  last_microbatch_ = last_microbatch;
  uses_left_ = uses_;
  count_missing();
  started_.assign(started_.size(), false);
  shared_.assign(shared_.size(), {});
  has_sum_.assign(started_.size(), false);
}

void DataParallel::count_missing() {
  missing_.assign(states().buckets().size(), 0);
  for (ParamId id = 0; id < parameters_->table().size(); ++id) {
    for (const std::size_t b : states().buckets_of(id)) ++missing_[b];
  }
  for (const SharedSum& sum : gradients_->shared()) {
    if (sum.holders == 1) continue;
    for (const std::size_t b : states().buckets_of(sum.id)) ++missing_[b];
  }
}

void DataParallel::grad_ready(ParamId id, int microbatch) {
  if (microbatch != last_microbatch_ && !states().cuts_gradients()) return;
  if (--uses_left_[static_cast<std::size_t>(id)] == 0) complete(id);
}

void DataParallel::complete(ParamId id) {
  const int shared = shared_of_[static_cast<std::size_t>(id)];
  if (shared >= 0) complete_shared(static_cast<std::size_t>(shared));
  for (const std::size_t b : states().buckets_of(id)) {
    --missing_[b];
    if (options_.overlap_grad_reduce || states().cuts_gradients()) start_if_complete(b);
  }
}

Communicator* DataParallel::group_of(const SharedSum& sum) const {
  if (sum.holders == 1) return nullptr;
  const auto index = static_cast<std::size_t>(sum.parameter);
  return index < groups_.shared.size() ? groups_.shared[index] : nullptr;
}

void DataParallel::complete_shared(std::size_t shared) {
  const SharedSum& sum = gradients_->shared()[shared];
  if (sum.is_chain) return;
  // This rank's roles are summed before any sum over ranks.
  gradients_->join(*context_, sum, sum.runs.front());
  if (options_.overlap_grad_reduce) start_shared_sum(shared);
}

void DataParallel::start_shared_sum(std::size_t shared) {
  const SharedSum& sum = gradients_->shared()[shared];
  SharedState& state = shared_[shared];
  Communicator* group = group_of(sum);
  if (sum.is_chain || group == nullptr || state.started) return;
  state.started = true;
  state.work = group->all_reduce(*context_, gradients_->gradient(sum.id), Reduction::kSum);
}

void DataParallel::start_if_complete(std::size_t bucket) {
  if (missing_[bucket] == 0 && !started_[bucket]) start_reduction(bucket);
}

void DataParallel::start_reduction(std::size_t bucket) {
  started_[bucket] = true;
  if (states().cuts_gradients()) return start_scatter(bucket);
  Communicator* group = groups_.data[domain(bucket)];
  if (group == nullptr) return;
  tell_begin(StateMove::kGradientSum, bucket);
  const Tensor whole = gradients_->whole(bucket);
  reductions_[bucket] =
      states().is_sharded(domain(bucket))
          ? group->reduce_scatter(*context_, gradients_->own(bucket), whole, Reduction::kSum)
          : group->all_reduce(*context_, whole, Reduction::kSum);
}

std::vector<SavedTensor> DataParallel::lent_tensors(int chunk, const nn::PassOrder& order) const {
  std::vector<SavedTensor> lent;
  if (!states().cuts_gradients() || order.forward_only) return lent;
  const UnitOrder& units = chunks_[static_cast<std::size_t>(chunk)];
  const int longer = options_.overlap_grad_reduce ? 1 : 0;
  for (const GradientHold& hold : holds_[static_cast<std::size_t>(chunk)]) {
    const int last = std::max(hold.last - longer, units.first_backward);
    lent.push_back({.name = "gradients",
                    .dtype = gradients_->dtype(),
                    .shape = {states().flat().regions[static_cast<std::size_t>(hold.group)].count},
                    .born = units.begin(units.backward_moment(hold.first)),
                    .last = units.end(units.backward_moment(last)),
                    .is_lent = true});
  }
  return lent;
}

void DataParallel::enter(int chunk, const nn::PassOrder& /*order*/, bool forward, Tensors lent) {
  if (!states().cuts_gradients() || forward) return;
  chunk_ = chunk;
  const std::vector<GradientHold>& holds = holds_[static_cast<std::size_t>(chunk)];
  PHALANX_CHECK(lent.size() == holds.size(), "{} tensors for the gradients of {} groups",
                lent.size(), holds.size());
  gradients_->begin_update();
  uses_left_ = uses_;
  count_missing();
  started_.assign(started_.size(), false);
  for (std::size_t i = 0; i < holds.size(); ++i) gradients_->place_group(holds[i].group, lent[i]);
}

void DataParallel::start_scatter(std::size_t bucket) {
  tell_begin(StateMove::kGradientSum, bucket);
  const StateLayout::Bucket& at = states().buckets()[bucket];
  const Tensor whole = gradients_->whole(bucket);
  Scatter scatter{.bucket = bucket, .adds = has_sum_[bucket], .sum = {}, .work = {}};
  has_sum_[bucket] = true;
  if (!states().is_sharded(domain(bucket))) {
    scatter.sum = whole;
  } else {
    // The first sum of an update is received directly in the shard, if that is in memory.
    if (!scatter.adds) scatter.sum = gradients_->own(bucket);
    scatter.is_in_place = scatter.sum.defined();
    if (!scatter.is_in_place) {
      scatter.sum = whole.slice(0, at.own.begin - at.range.begin, at.own.count);
    }
    scatter.work = groups_.data[domain(bucket)]->reduce_scatter(*context_, scatter.sum, whole,
                                                                Reduction::kSum);
  }
  const std::vector<GradientHold>& holds = holds_[static_cast<std::size_t>(chunk_)];
  const int last = std::ranges::find(holds, at.group, &GradientHold::group)->last;
  const bool waits = options_.overlap_grad_reduce &&
                     last > chunks_[static_cast<std::size_t>(chunk_)].first_backward;
  scatter.until = waits ? last - 1 : last;
  scatters_.push_back(std::move(scatter));
  if (!waits) finish_scatters(last);
}

void DataParallel::finish_scatters(int unit) {
  for (const Scatter& scatter : scatters_) {
    if (scatter.until != unit) continue;
    scatter.work.wait(context_->queue);
    if (!scatter.is_in_place && scatter.adds) {
      gradients_->add(*context_, scatter.bucket, scatter.sum);
    } else if (!scatter.is_in_place) {
      gradients_->set(*context_, scatter.bucket, scatter.sum);
    }
    tell_end(StateMove::kGradientSum, scatter.bucket);
  }
  std::erase_if(scatters_, [&](const Scatter& scatter) { return scatter.until == unit; });
}

void DataParallel::after(const nn::Unit& unit, nn::PassKind pass, int /*microbatch*/,
                         const nn::UnitTensors& /*tensors*/) {
  if (pass != nn::PassKind::kBackwardWeight || scatters_.empty()) return;
  finish_scatters(chunks_[static_cast<std::size_t>(chunk_)].index_of(unit));
}

void DataParallel::reduce(int chunk) {
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    const ParamId id = gradients_->shared()[i].id;
    if (uses_left_[static_cast<std::size_t>(id)] == 0) start_shared_sum(i);
  }
  for (std::size_t b = 0; b < started_.size(); ++b) {
    const auto group = static_cast<std::size_t>(states().buckets()[b].group);
    if (states().groups().chunk[group] == chunk) start_if_complete(b);
  }
}

void DataParallel::finish_reduction() {
  finish_shared_sums();
  gradients_->expect_complete();
  finish_buckets();
  sum_over_replicas();
  sum_over_sequence();
  sum_over_box_holders();
}

void DataParallel::finish_shared_sums() {
  const auto& shared = gradients_->shared();
  const bool sums = std::ranges::any_of(shared, [](const SharedSum& s) { return s.holders > 1; });
  const TimerScope time(sums ? timers_ : nullptr, StepTimer::kEmbeddingGradients);
  for (std::size_t i = 0; i < shared.size(); ++i) start_shared_sum(i);
  // All ranks take them in the same order, because each rank waits for the ranks before it.
  for (const SharedSum& sum : shared) {
    if (sum.is_chain) sum_along_holders(sum);
  }
  for (SharedState& state : shared_) {
    state.work.wait(context_->queue);
    state.work = {};
  }
}

void DataParallel::sum_along_holders(const SharedSum& sum) {
  const Tensor& gradient = gradients_->gradient(sum.id);
  Communicator* group = group_of(sum);
  const auto key = [&](int run) {
    return message_key(MessageKind::kGradient, static_cast<std::uint32_t>(sum.parameter),
                       static_cast<std::uint32_t>(run));
  };
  for (const SharedSum::Run& run : sum.runs) {
    if (run.previous >= 0) {
      group->receive(*context_, gradient, run.previous, key(run.number)).wait(context_->queue);
    }
    gradients_->join(*context_, sum, run);
    if (run.next >= 0) {
      group->send(*context_, gradient, run.next, key(run.number + 1)).wait(context_->queue);
    }
  }
  group->broadcast(*context_, gradient, sum.last_holder).wait(context_->queue);
}

void DataParallel::finish_buckets() {
  // Without other ranks there is nothing to wait for, and Megatron has no such row.
  const bool sums = groups_.data.dense != nullptr || groups_.data.expert != nullptr;
  const TimerScope time(sums ? timers_ : nullptr, StepTimer::kAllGradients);
  for (std::size_t b = 0; b < started_.size(); ++b) {
    // Gradients that are cut have been summed, except buckets of padding.
    if (!started_[b] && !states().cuts_gradients()) start_reduction(b);
  }
  for (std::size_t b = 0; b < reductions_.size(); ++b) {
    reductions_[b].wait(context_->queue);
    reductions_[b] = {};
    if (!states().cuts_gradients()) tell_end(StateMove::kGradientSum, b);
  }
}

void DataParallel::sum_over_sequence() {
  if (!coalesced_) return;
  const TimerScope time(timers_, StepTimer::kLayerNormGradients);
  ops::fill(*context_, {.x = coalesced_, .value = 0.0});
  const auto copy_each = [&](bool in) {
    for (const auto& [segment, place] : sequence_partial_) {
      const Tensor gradient = gradients_->gradient(segment);
      const Tensor slot = coalesced_.slice(0, place, segment.count);
      ops::copy(*context_, {.destination = in ? slot : gradient, .source = in ? gradient : slot});
    }
  };
  copy_each(true);
  region_.group().all_reduce(*context_, coalesced_, Reduction::kSum).wait(context_->queue);
  copy_each(false);
}

void DataParallel::sum_over_box_holders() {
  if (common_.empty()) return;
  const TimerScope time(timers_, StepTimer::kLayerNormGradients);
  const auto sum = [&](const Tensor& gradient) {
    return groups_.box_holders->all_reduce(*context_, gradient, Reduction::kSum);
  };
  std::vector<Work> sums;
  for (const Common& common : common_) {
    if (states().cuts_gradients()) {
      copy_common(common, true);
      sum(common_sum_.slice(0, 0, common.count)).wait(context_->queue);
      copy_common(common, false);
    } else {
      const Tensor& gradient = gradients_->gradient(common.id);
      sums.push_back(
          sum(gradient.reshape({gradient.count()}).slice(0, common.begin, common.count)));
    }
  }
  for (Work& work : sums) work.wait(context_->queue);
}

void DataParallel::copy_common(const Common& common, bool in) {
  if (in) ops::fill(*context_, {.x = common_sum_, .value = 0.0});
  for (const Segment& segment : states().segments()) {
    if (segment.id != common.id) continue;
    const std::int64_t begin = std::max(segment.begin, common.begin);
    const std::int64_t count = segment.begin + segment.count - begin;
    if (count <= 0) continue;
    const Tensor own = gradients_->gradient(segment).slice(0, begin - segment.begin, count);
    const Tensor place = common_sum_.slice(0, begin - common.begin, count);
    ops::copy(*context_, {.destination = in ? place : own, .source = in ? own : place});
  }
}

void DataParallel::sum_over_replicas() {
  if (groups_.replicas.dense == nullptr && groups_.replicas.expert == nullptr) return;
  const TimerScope time(timers_, StepTimer::kAllGradients);
  std::vector<std::pair<std::size_t, Work>> sums;  // by bucket
  for (std::size_t b = 0; b < states().buckets().size(); ++b) {
    Communicator* replicas = groups_.replicas[domain(b)];
    if (replicas == nullptr) continue;
    tell_begin(StateMove::kReplicaSum, b);
    sums.emplace_back(b, replicas->all_reduce(*context_, gradients_->own(b), Reduction::kSum));
  }
  for (auto& [bucket, sum] : sums) {
    sum.wait(context_->queue);
    tell_end(StateMove::kReplicaSum, bucket);
  }
}

void DataParallel::gather() {
  if (!states().is_sharded()) return;
  const TimerScope time(timers_, StepTimer::kGatherParameters);
  // Forward reads the last bucket first, because it holds the first parameters.
  for (std::size_t b = gathers_.size(); b-- > 0;) {
    const StateLayout::Bucket& at = states().buckets()[b];
    if (states().cuts_weights(at.group) || !states().is_sharded(domain(b))) continue;
    const Tensor whole = parameters_->weights(at);
    const Tensor own = whole.slice(0, at.own.begin - at.range.begin, at.own.count);
    tell_begin(StateMove::kNewParameters, b);
    gathers_[b] = groups_.data[domain(b)]->all_gather(*context_, whole, own);
  }
  if (!options_.overlap_param_gather) finish_gather();
}

void DataParallel::wait_for(std::size_t bucket) {
  gathers_[bucket].wait(context_->queue);
  gathers_[bucket] = {};
  tell_end(StateMove::kNewParameters, bucket);
}

void DataParallel::finish_gather() {
  if (context_ == nullptr) return;  // no step so far
  for (std::size_t b = gathers_.size(); b-- > 0;) wait_for(b);
}

void DataParallel::gather_loaded(Context& context) {
  context_ = &context;
  gather();
  finish_gather();
}

void DataParallel::before(const nn::Unit& unit, nn::PassKind pass, int /*microbatch*/) {
  if (pass != nn::PassKind::kForward || !options_.overlap_param_gather) return;
  for (const ParamId id : unit.parameters()) {
    for (const std::size_t b : states().buckets_of(id)) wait_for(b);
  }
}

}  // namespace phalanx
