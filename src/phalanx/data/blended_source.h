#pragma once
// Sources above other sources.

#include <cstdint>
#include <memory>
#include <vector>

#include "phalanx/data/blend.h"
#include "phalanx/data/sample_source.h"

namespace phalanx {

// Samples of several sources in the order of a blend. All sources have one schema.
class BlendedSource final : public SampleSource {
 public:
  BlendedSource(std::vector<std::shared_ptr<const SampleSource>> sources, BlendIndex index);

  std::int64_t size() const override { return index_.size(); }
  const BatchSchema& schema() const override { return sources_.front()->schema(); }
  int losses() const override { return sources_.front()->losses(); }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;
  SamplePlace place_of(std::int64_t index) const override;
  std::optional<double> mean_of_documents(const DocumentMeasure& measure) const override;

  const BlendIndex& index() const { return index_; }

 private:
  std::vector<std::shared_ptr<const SampleSource>> sources_;
  BlendIndex index_;
};

// A source whose size is rounded up to a multiple of a batch, so that all of it can be evaluated:
// the samples that make up the last batch count for nothing (their column "loss_mask" is 0, and
// "is_random", where there is one, -1).
class PaddedSource final : public SampleSource {
 public:
  PaddedSource(std::shared_ptr<const SampleSource> source, std::int64_t batch);

  std::int64_t size() const override { return size_; }
  const BatchSchema& schema() const override { return source_->schema(); }
  int losses() const override { return source_->losses(); }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override;
  SamplePlace place_of(std::int64_t index) const override;
  std::optional<double> mean_of_documents(const DocumentMeasure& measure) const override {
    return source_->mean_of_documents(measure);
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  std::int64_t size_;
};

}  // namespace phalanx
