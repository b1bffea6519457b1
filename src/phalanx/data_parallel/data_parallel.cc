#include "phalanx/data_parallel/data_parallel.h"

#include <algorithm>

#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

// Buckets that hold a part of each parameter.
std::vector<std::vector<std::size_t>> bucket_index(const ParameterStore& parameters,
                                                   const std::vector<FlatRange>& buckets) {
  std::vector<std::vector<std::size_t>> index(parameters.table().specs().size());
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const Segment& part : segments_of(parameters.table(), parameters.layout(), {buckets[b]})) {
      index[static_cast<std::size_t>(part.id)].push_back(b);
    }
  }
  return index;
}

std::vector<int> shared_index(const nn::ParamTable& table, const std::vector<SharedSum>& shared) {
  std::vector<int> index(table.specs().size(), -1);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    index[static_cast<std::size_t>(shared[i].id)] = static_cast<int>(i);
  }
  return index;
}

bool is_sequence_partial(const ParamSpec& spec) {
  return spec.reduction == GradientReduction::kSequencePartial;
}

}  // namespace

DataParallel::DataParallel(const ParameterStore& parameters, const GradientStore& gradients,
                           std::vector<int> uses, const ReductionGroups& groups,
                           const TensorRegion& region, const DataParallelOptions& options,
                           Arena& communication)
    : parameters_(&parameters),
      gradients_(&gradients),
      uses_(std::move(uses)),
      groups_(groups),
      region_(region),
      options_(options),
      buckets_(parameters.is_sharded() ? parameters.buckets()
                                       : cut_buckets(parameters.layout(), options.bucket_size, 1)),
      buckets_of_(bucket_index(parameters, buckets_)),
      shared_of_(shared_index(parameters.table(), gradients.shared())),
      reductions_(buckets_.size()),
      started_(buckets_.size()),
      shared_(gradients.shared().size()),
      gathers_(buckets_.size()) {
  PHALANX_CHECK(!parameters.is_sharded() || groups.data != nullptr, "a shard of one rank");
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
    if (!is_sequence_partial(table[id])) continue;
    places[static_cast<std::size_t>(id)] = count;
    count += table[id].local_shape.count();
  }
  for (const Segment& segment : parameters.segments()) {
    if (!is_sequence_partial(table[segment.id])) continue;
    sequence_partial_.push_back(
        {segment, places[static_cast<std::size_t>(segment.id)] + segment.begin});
  }
  if (count > 0) coalesced_ = communication.allocate(gradients.flat().dtype, {count});
  for (ParamId id = 0; id < table.size(); ++id) {
    const std::int64_t common = common_count(table[id]);
    if (common == 0) continue;
    PHALANX_CHECK(
        groups_.box_holders != nullptr && groups_.box_holders->size() == most_holders(table[id]),
        "{}: {} ranks have boxes of it, of which {} sum them", table[id].name,
        most_holders(table[id]), groups_.box_holders != nullptr ? groups_.box_holders->size() : 1);
    const std::int64_t elements = table[id].local_shape.count();
    common_.push_back(
        gradients.gradient(id).reshape({elements}).slice(0, elements - common, common));
  }
}

void DataParallel::begin(Context& context, int last_microbatch) {
  context_ = &context;
  last_microbatch_ = last_microbatch;
  uses_left_ = uses_;
  missing_.assign(buckets_.size(), 0);
  for (const auto& buckets : buckets_of_) {
    for (const std::size_t b : buckets) ++missing_[b];
  }
  for (const SharedSum& sum : gradients_->shared()) {
    if (sum.holders == 1) continue;
    for (const std::size_t b : buckets_of_[static_cast<std::size_t>(sum.id)]) ++missing_[b];
  }
  started_.assign(buckets_.size(), false);
  shared_.assign(shared_.size(), {});
}

void DataParallel::grad_ready(ParamId id, int microbatch) {
  if (microbatch != last_microbatch_) return;
  if (--uses_left_[static_cast<std::size_t>(id)] == 0) complete(id);
}

void DataParallel::complete(ParamId id) {
  const int shared = shared_of_[static_cast<std::size_t>(id)];
  if (shared >= 0) complete_shared(static_cast<std::size_t>(shared));
  for (const std::size_t b : buckets_of_[static_cast<std::size_t>(id)]) {
    --missing_[b];
    if (options_.overlap_grad_reduce) start_if_complete(b);
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
  // A rank's roles become one sum before any sum over ranks.
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
  if (groups_.data == nullptr) return;
  const FlatRange& range = buckets_[bucket];
  const Tensor sums = gradients_->flat().slice(0, range.begin, range.count);
  if (parameters_->is_sharded()) {
    const FlatRange& own = parameters_->shard()[bucket];
    reductions_[bucket] = groups_.data->reduce_scatter(
        *context_, gradients_->flat().slice(0, own.begin, own.count), sums, Reduction::kSum);
  } else {
    reductions_[bucket] = groups_.data->all_reduce(*context_, sums, Reduction::kSum);
  }
}

void DataParallel::reduce(int chunk) {
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    const ParamId id = gradients_->shared()[i].id;
    if (uses_left_[static_cast<std::size_t>(id)] == 0) start_shared_sum(i);
  }
  const FlatRange& region = parameters_->layout().regions[static_cast<std::size_t>(chunk)];
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const bool is_of_chunk = buckets_[b].begin >= region.begin && buckets_[b].end() <= region.end();
    if (is_of_chunk) start_if_complete(b);
  }
}

void DataParallel::finish_reduction() {
  finish_shared_sums();
  gradients_->expect_complete();
  finish_buckets();
  sum_over_sequence();
  sum_over_box_holders();
}

void DataParallel::finish_shared_sums() {
  const auto& shared = gradients_->shared();
  const bool sums = std::ranges::any_of(shared, [](const SharedSum& s) { return s.holders > 1; });
  const TimerScope time(sums ? timers_ : nullptr, StepTimer::kEmbeddingGradients);
  for (std::size_t i = 0; i < shared.size(); ++i) start_shared_sum(i);
  // In one order on all ranks: each waits for those before it.
  for (const SharedSum& sum : shared) {
    if (sum.is_chain) pass_on(sum);
  }
  for (SharedState& state : shared_) {
    state.work.wait(context_->stream);
    state.work = {};
  }
}

void DataParallel::pass_on(const SharedSum& sum) {
  const Tensor& gradient = gradients_->gradient(sum.id);
  Communicator* group = group_of(sum);
  const auto key = [&](int run) {
    return message_key(MessageKind::kGradient, static_cast<std::uint32_t>(sum.parameter),
                       static_cast<std::uint32_t>(run));
  };
  for (const SharedSum::Run& run : sum.runs) {
    if (run.previous >= 0) {
      group->receive(*context_, gradient, run.previous, key(run.number)).wait(context_->stream);
    }
    gradients_->join(*context_, sum, run);
    if (run.next >= 0) {
      group->send(*context_, gradient, run.next, key(run.number + 1)).wait(context_->stream);
    }
  }
  group->broadcast(*context_, gradient, sum.last_holder).wait(context_->stream);
}

void DataParallel::finish_buckets() {
  // Without other ranks there is nothing to wait for, and Megatron's row is not there.
  const TimerScope time(groups_.data != nullptr ? timers_ : nullptr, StepTimer::kAllGradients);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!started_[b]) start_reduction(b);
  }
  for (Work& work : reductions_) {
    work.wait(context_->stream);
    work = {};
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
  region_.group().all_reduce(*context_, coalesced_, Reduction::kSum).wait(context_->stream);
  copy_each(false);
}

void DataParallel::sum_over_box_holders() {
  if (common_.empty()) return;
  const TimerScope time(timers_, StepTimer::kLayerNormGradients);
  std::vector<Work> sums;
  for (const Tensor& gradient : common_) {
    sums.push_back(groups_.box_holders->all_reduce(*context_, gradient, Reduction::kSum));
  }
  for (Work& sum : sums) sum.wait(context_->stream);
}

void DataParallel::gather() {
  if (!parameters_->is_sharded()) return;
  const TimerScope time(timers_, StepTimer::kGatherParameters);
  // In the order in which forward reads: the last bucket holds the first parameters.
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    const FlatRange& range = buckets_[b];
    const FlatRange& own = parameters_->shard()[b];
    gathers_[b] =
        groups_.data->all_gather(*context_, parameters_->flat().slice(0, range.begin, range.count),
                                 parameters_->flat().slice(0, own.begin, own.count));
  }
  if (!options_.overlap_param_gather) finish_gather();
}

void DataParallel::wait_for(std::size_t bucket) {
  gathers_[bucket].wait(context_->stream);
  gathers_[bucket] = {};
}

void DataParallel::finish_gather() {
  if (context_ == nullptr) return;  // no step so far
  for (std::size_t b = buckets_.size(); b-- > 0;) wait_for(b);
}

void DataParallel::before(const nn::Unit& unit, nn::PassKind pass, int /*microbatch*/) {
  if (pass != nn::PassKind::kForward || !options_.overlap_param_gather) return;
  for (const ParamId id : unit.parameters()) {
    for (const std::size_t b : buckets_of_[static_cast<std::size_t>(id)]) wait_for(b);
  }
}

}  // namespace phalanx
