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

// The copy of a word table, or -1.
ParamId copy_in(const nn::ParamTable& table) {
  const auto found = std::ranges::find_if(
      table.specs(), [](const ParamSpec& spec) { return spec.copy != EmbeddingCopy::kOnly; });
  return found == table.specs().end() ? -1 : static_cast<ParamId>(found - table.specs().begin());
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
      copy_(copy_in(parameters.table())),
      reductions_(buckets_.size()),
      started_(buckets_.size()),
      gathers_(buckets_.size()) {
  PHALANX_CHECK(!parameters.is_sharded() || groups.data != nullptr, "a shard of one rank");
  PHALANX_CHECK(copy_ < 0 || groups.embedding != nullptr, "a copy of nobody's word table");
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
}

void DataParallel::begin(Context& context, int last_microbatch) {
  context_ = &context;
  last_microbatch_ = last_microbatch;
  uses_left_ = uses_;
  missing_.assign(buckets_.size(), 0);
  for (const auto& buckets : buckets_of_) {
    for (const std::size_t b : buckets) ++missing_[b];
  }
  if (copy_ >= 0) {
    for (const std::size_t b : buckets_of_[static_cast<std::size_t>(copy_)]) ++missing_[b];
  }
  started_.assign(buckets_.size(), false);
  copy_sum_started_ = false;
}

void DataParallel::grad_ready(ParamId id, int microbatch) {
  if (microbatch != last_microbatch_) return;
  if (--uses_left_[static_cast<std::size_t>(id)] == 0) complete(id);
}

void DataParallel::complete(ParamId id) {
  // The two accumulators of a tied embedding become one before any sum over ranks.
  if (id == gradients_->tied_embedding()) gradients_->join_tied_embedding(*context_);
  if (id == copy_ && options_.overlap_grad_reduce) start_copy_sum();
  for (const std::size_t b : buckets_of_[static_cast<std::size_t>(id)]) {
    --missing_[b];
    if (options_.overlap_grad_reduce) start_if_complete(b);
  }
}

void DataParallel::start_copy_sum() {
  if (copy_sum_started_) return;
  copy_sum_started_ = true;
  copy_sum_ =
      groups_.embedding->all_reduce(*context_, gradients_->gradient(copy_), Reduction::kSum);
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
  if (copy_ >= 0 && parameters_->table().chunk(copy_) == chunk) start_copy_sum();
  const FlatRange& region = parameters_->layout().regions[static_cast<std::size_t>(chunk)];
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const bool is_of_chunk = buckets_[b].begin >= region.begin && buckets_[b].end() <= region.end();
    if (is_of_chunk) start_if_complete(b);
  }
}

void DataParallel::finish_reduction() {
  gradients_->expect_complete();
  finish_copy_sum();
  finish_buckets();
  sum_over_sequence();
}

void DataParallel::finish_copy_sum() {
  if (copy_ < 0) return;
  const TimerScope time(timers_, StepTimer::kEmbeddingGradients);
  start_copy_sum();
  copy_sum_.wait(context_->stream);
  copy_sum_ = {};
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
