#pragma once
// A data set that is read again and again, in a new order each time: that of torch's
// DistributedSampler, the permutation that torch.randperm draws of seed + epoch. The order belongs
// to the whole global batch, so it does not depend on how many ranks read it.

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "phalanx/data/sample_source.h"

namespace phalanx {

class ShuffledEpochs final : public SampleSource {
 public:
  // An epoch is `epoch_samples` long: fewer than the source has, where a rest is dropped, or more,
  // where sample numbers from source->size() on fill the last batch up (PaddedSource gives those).
  // ConfigError where the source is larger than can be permuted.
  ShuffledEpochs(std::shared_ptr<const SampleSource> source, std::int64_t permuted,
                 std::int64_t epoch_samples, std::int64_t epochs, std::uint64_t seed);

  std::int64_t size() const override { return epoch_samples_ * epochs_; }
  const BatchSchema& schema() const override { return source_->schema(); }
  int losses() const override { return source_->losses(); }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;

  SamplePlace place_of(std::int64_t index) const override {
    return source_->place_of(index_of(index));
  }
  std::optional<double> mean_of_documents(const DocumentMeasure& measure) const override {
    return source_->mean_of_documents(measure);
  }
  // The sample of the source that a sample is.
  std::int64_t index_of(std::int64_t index) const;

 private:
  using Order = std::shared_ptr<const std::vector<std::uint32_t>>;
  Order order_of(std::int64_t epoch) const;

  std::shared_ptr<const SampleSource> source_;
  std::int64_t permuted_, epoch_samples_, epochs_;
  std::uint64_t seed_;

  // The orders of two epochs, because threads that read ahead may be in the next one.
  static constexpr std::size_t kKept = 2;
  mutable std::mutex mutex_;
  mutable Order orders_[kKept];
  mutable std::int64_t epochs_of_orders_[kKept] = {-1, -1};
};

}  // namespace phalanx
