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

bool is_sequence_partial(const ParamSpec& spec) {
  return spec.reduction == GradientReduction::kSequencePartial;
}

}  // namespace

DataParallel::DataParallel(const ParameterStore& parameters, const GradientStore& gradients,
                           std::vector<int> uses, Communicator* group, const TensorRegion& region,
                           const DataParallelOptions& options, Arena& communication)
    : parameters_(&parameters),
      gradients_(&gradients),
      uses_(std::move(uses)),
      group_(group),
      region_(region),
      options_(options),
      buckets_(parameters.is_sharded() ? parameters.buckets()
                                       : cut_buckets(parameters.layout(), options.bucket_size, 1)),
      buckets_of_(bucket_index(parameters, buckets_)),
      reductions_(buckets_.size()),
      started_(buckets_.size()),
      gathers_(buckets_.size()) {
  PHALANX_CHECK(!parameters.is_sharded() || group != nullptr, "a shard of one rank");
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
  parameters_left_.assign(buckets_.size(), 0);
  for (const auto& buckets : buckets_of_) {
    for (const std::size_t b : buckets) ++parameters_left_[b];
  }
  started_.assign(buckets_.size(), false);
}

void DataParallel::grad_ready(ParamId id, int microbatch) {
  if (microbatch != last_microbatch_) return;
  if (--uses_left_[static_cast<std::size_t>(id)] == 0) complete(id);
}

void DataParallel::complete(ParamId id) {
  // The two accumulators of a tied embedding become one before any sum over ranks.
  if (id == gradients_->tied_embedding()) gradients_->join_tied_embedding(*context_);
  if (!options_.overlap_grad_reduce) return;
  for (const std::size_t b : buckets_of_[static_cast<std::size_t>(id)]) {
    if (--parameters_left_[b] == 0) start_reduction(b);
  }
}

void DataParallel::start_reduction(std::size_t bucket) {
  started_[bucket] = true;
  if (group_ == nullptr) return;
  const FlatRange& range = buckets_[bucket];
  const Tensor sums = gradients_->flat().slice(0, range.begin, range.count);
  if (parameters_->is_sharded()) {
    const FlatRange& own = parameters_->shard()[bucket];
    reductions_[bucket] = group_->reduce_scatter(
        *context_, gradients_->flat().slice(0, own.begin, own.count), sums, Reduction::kSum);
  } else {
    reductions_[bucket] = group_->all_reduce(*context_, sums, Reduction::kSum);
  }
}

void DataParallel::reduce() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!started_[b]) start_reduction(b);
  }
  for (Work& work : reductions_) {
    work.wait(context_->stream);
    work = {};
  }
  sum_over_sequence();
}

void DataParallel::sum_over_sequence() {
  if (!coalesced_) return;
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
  // In the order in which forward reads: the last bucket holds the first parameters.
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    const FlatRange& range = buckets_[b];
    const FlatRange& own = parameters_->shard()[b];
    gathers_[b] =
        group_->all_gather(*context_, parameters_->flat().slice(0, range.begin, range.count),
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
