#include "phalanx/data/shuffled_epochs.h"

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/data/torch_random.h"

namespace phalanx {

ShuffledEpochs::ShuffledEpochs(std::shared_ptr<const SampleSource> source, std::int64_t permuted,
                               std::int64_t epoch_samples, std::int64_t epochs, std::uint64_t seed)
    : source_(std::move(source)),
      permuted_(permuted),
      epoch_samples_(epoch_samples),
      epochs_(epochs),
      seed_(seed) {
  PHALANX_CHECK(permuted_ > 0 && epoch_samples_ > 0 && epochs_ >= 0 &&
                    permuted_ <= source_->size() && epoch_samples_ <= source_->size(),
                "{} epochs of {}, {} of {} samples permuted", epochs_, epoch_samples_, permuted_,
                source_->size());
  order_of(0);
}

ShuffledEpochs::Order ShuffledEpochs::order_of(std::int64_t epoch) const {
  const auto slot = static_cast<std::size_t>(epoch) % kKept;
  const std::lock_guard lock(mutex_);
  if (epochs_of_orders_[slot] != epoch) {
    orders_[slot] = std::make_shared<const std::vector<std::uint32_t>>(
        torch_permutation(permuted_, seed_ + static_cast<std::uint64_t>(epoch)));
    epochs_of_orders_[slot] = epoch;
  }
  return orders_[slot];
}

std::int64_t ShuffledEpochs::index_of(std::int64_t index) const {
  const std::int64_t place = index % epoch_samples_;
  if (place >= permuted_) return place;
  return (*order_of(index / epoch_samples_))[static_cast<std::size_t>(place)];
}

void ShuffledEpochs::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  source_->fetch(index_of(index), sample, counts);
}

}  // namespace phalanx
