#include "phalanx/data/blended_source.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

BlendedSource::BlendedSource(std::vector<std::shared_ptr<const SampleSource>> sources,
                             BlendIndex index)
    : sources_(std::move(sources)), index_(std::move(index)) {
  PHALANX_CHECK(!sources_.empty() && sources_.size() == index_.counts().size(),
                "{} sources in a blend of {}", sources_.size(), index_.counts().size());
  for (std::size_t d = 0; d < sources_.size(); ++d) {
    PHALANX_CHECK(sources_[d]->schema() == schema() && sources_[d]->losses() == losses(),
                  "source {} of a blend has another schema", d);
    PHALANX_CHECK(sources_[d]->size() >= index_.counts()[d],
                  "source {} of a blend has {} samples and gives {}", d, sources_[d]->size(),
                  index_.counts()[d]);
  }
}

void BlendedSource::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  const BlendedSample at = index_.at(index);
  sources_[static_cast<std::size_t>(at.dataset)]->fetch(at.sample, sample, counts);
}

PaddedSource::PaddedSource(std::shared_ptr<const SampleSource> source, std::int64_t batch)
    : source_(std::move(source)),
      size_(round_up(source_->size(), batch)),
      loss_mask_(source_->schema().index("loss_mask")) {
  PHALANX_CHECK(source_->size() > 0, "padding of no samples");
}

void PaddedSource::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  const std::int64_t last = source_->size() - 1;
  source_->fetch(std::min(index, last), sample, counts);
  if (index <= last) return;
  std::ranges::fill(sample.column<float>(loss_mask_), 0.0F);
  std::ranges::fill(counts, 0.0);
}

}  // namespace phalanx
