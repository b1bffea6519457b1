#include "phalanx/data_parallel/weight_gathers.h"

#include <utility>

namespace phalanx {

using nn::PassKind;

WeightGathers::WeightGathers(const ParameterStore& parameters, std::vector<UnitOrder> chunks,
                             const PerDomain<Communicator*>& data, const GatherOptions& options)
    : parameters_(&parameters), chunks_(std::move(chunks)), data_(data), options_(options) {
  PHALANX_CHECK(states().cuts_weights(), "gathers of weights that are whole");
  for (int group = 0; group < states().groups().size(); ++group) {
    is_cut_.push_back(states().cuts_weights(group));
    PHALANX_CHECK(!is_cut_.back() || data_[states().domain(group)] != nullptr ||
                      parameters.weight_file() != nullptr,
                  "gathers from nobody and nowhere");
  }
  for (ParamId id = 0; id < parameters.table().size(); ++id) {
    weights_.push_back(parameters.weight(id));
  }
}

std::vector<WeightHold> WeightGathers::holds(int chunk, const nn::PassOrder& order) const {
  return weight_holds(chunks_[static_cast<std::size_t>(chunk)], is_cut_, order, options_);
}

std::int64_t WeightGathers::own_elements(int group) const {
  std::int64_t elements = 0;
  for (const StateLayout::Bucket& bucket : states().buckets()) {
    if (bucket.group == group) elements += bucket.own.count;
  }
  return elements;
}

std::vector<SavedTensor> WeightGathers::lent_tensors(int chunk, const nn::PassOrder& order) const {
  const UnitOrder& units = chunks_[static_cast<std::size_t>(chunk)];
  std::vector<SavedTensor> lent;
  const std::vector<WeightHold> all = holds(chunk, order);
  for (const WeightHold& hold : all) {
    const auto group = static_cast<std::size_t>(hold.group);
    lent.push_back({.name = "gathered weights",
                    .dtype = parameters_->flat().dtype,
                    .shape = {states().flat().regions[group].count},
                    .born = units.begin(hold.gathered),
                    .last = units.end(hold.last),
                    .is_lent = true});
  }
  for (const WeightHold& hold : all) {
    if (!reads_own_part(hold.group)) continue;
    lent.push_back({.name = "own part of weights",
                    .dtype = parameters_->flat().dtype,
                    .shape = {own_elements(hold.group)},
                    .born = units.begin(hold.read),
                    .last = units.end(hold.first),
                    .is_lent = true});
  }
  return lent;
}

void WeightGathers::enter(int chunk, const nn::PassOrder& order, bool forward, Tensors lent) {
  if (chunk != chunk_ || order != order_) {
    chunk_ = chunk;
    order_ = order;
    holds_ = holds(chunk, order);
    reads_.assign(holds_.size(), {});
    gathers_.assign(holds_.size(), {});
  }
  const std::size_t count = holds_.size();
  whole_.assign(lent.begin(), lent.begin() + static_cast<std::ptrdiff_t>(count));
  own_.assign(count, {});
  std::size_t next = count;
  for (std::size_t i = 0; i < count; ++i) {
    if (reads_own_part(holds_[i].group)) own_[i] = lent[next++];
  }
  PHALANX_CHECK(lent.size() == next, "{} tensors for {} gathers", lent.size(), count);
  const int entry = forward ? 0 : units().size();
  begun_ = 0;
  while (begun_ < count && holds_[begun_].gathered < entry) ++begun_;
  read_ = begun_;
  while (read_ < count && holds_[read_].read < entry) ++read_;
  is_there_.assign(holds_.size(), false);
  for (std::size_t i = 0; i < begun_; ++i) {
    const WeightHold& hold = holds_[i];
    is_there_[i] = hold.first < entry;
    if (is_there_[i] && hold.last >= entry) set_group_weights(hold.group, whole_[i]);
  }
}

void WeightGathers::read_own_part(std::size_t number) {
  const int group = holds_[number].group;
  if (!reads_own_part(group)) return;
  if (observer_ != nullptr) observer_->begins(StateMove::kWeightRead, group);
  read_tiles(number, own_[number]);
}

void WeightGathers::read_tiles(std::size_t number, const Tensor& to) {
  const TileFile* file = parameters_->weight_file();
  std::int64_t place = 0;
  for (std::size_t t = 0; t < states().tiles().size(); ++t) {
    const StateLayout::Tile& tile = states().tiles()[t];
    if (states().buckets()[tile.bucket].group != holds_[number].group) continue;
    reads_[number].push_back(
        file->read(*context_, static_cast<int>(t), to.slice(0, place, tile.local.count)));
    place += tile.local.count;
  }
}

void WeightGathers::gather(std::size_t number) {
  const WeightHold& hold = holds_[number];
  Communicator* group = data(hold.group);
  if (group == nullptr) return read_tiles(number, whole_[number]);
  const bool is_read = reads_own_part(hold.group);
  for (const Work& work : reads_[number]) work.wait(context_->queue);
  reads_[number].clear();
  if (observer_ != nullptr && is_read) observer_->is_done(StateMove::kWeightRead, hold.group);
  const FlatRange& region = states().flat().regions[static_cast<std::size_t>(hold.group)];
  std::int64_t place = 0;
  for (const StateLayout::Bucket& bucket : states().buckets()) {
    if (bucket.group != hold.group) continue;
    const Tensor whole =
        whole_[number].slice(0, bucket.range.begin - region.begin, bucket.range.count);
    const Tensor own =
        is_read ? own_[number].slice(0, place, bucket.own.count) : parameters_->weights(bucket);
    place += bucket.own.count;
    gathers_[number].push_back(group->all_gather(*context_, whole, own));
  }
}

void WeightGathers::set_group_weights(int group, const Tensor& whole) {
  const FlatLayout& flat = states().flat();
  const std::int64_t begin = flat.regions[static_cast<std::size_t>(group)].begin;
  for (ParamId id = 0; id < parameters_->table().size(); ++id) {
    if (states().group(id) != group) continue;
    const auto i = static_cast<std::size_t>(id);
    const Shape& shape = parameters_->table()[id].local_shape;
    weights_[i] =
        whole ? whole.slice(0, flat.offsets[i] - begin, shape.count()).reshape(shape) : Tensor{};
  }
}

void WeightGathers::before(const nn::Unit& unit, PassKind pass, int /*microbatch*/) {
  const int now = units().moment_of(unit, pass);
  const auto begin = [&](auto is_due) {
    while (begun_ < holds_.size() && holds_[begun_].gathered <= now && is_due(holds_[begun_])) {
      if (read_ == begun_) read_own_part(read_++);
      gather(begun_);
      if (observer_ != nullptr) observer_->begins(StateMove::kWeights, holds_[begun_].group);
      ++begun_;
    }
  };
  begin([&](const WeightHold& hold) { return hold.first <= now; });
  for (std::size_t i = 0; i < begun_; ++i) {
    if (holds_[i].first > now || is_there_[i]) continue;
    for (auto* under_way : {&reads_[i], &gathers_[i]}) {
      for (const Work& work : *under_way) work.wait(context_->queue);
      under_way->clear();
    }
    is_there_[i] = true;
    if (observer_ != nullptr) observer_->is_done(StateMove::kWeights, holds_[i].group);
    set_group_weights(holds_[i].group, whole_[i]);
  }
  // The next ones are gathered while this unit computes.
  begin([](const WeightHold& /*hold*/) { return true; });
  while (read_ < holds_.size() && holds_[read_].read <= now) read_own_part(read_++);
}

void WeightGathers::after(const nn::Unit& unit, PassKind pass, int /*microbatch*/,
                          const nn::UnitTensors& /*tensors*/) {
  if (pass == PassKind::kBackwardInput) return;
  const int now = units().moment_of(unit, pass);
  for (const WeightHold& hold : holds_) {
    if (hold.last != now) continue;
    set_group_weights(hold.group, {});
    if (observer_ != nullptr) observer_->frees_weights(hold.group);
  }
}

}  // namespace phalanx
