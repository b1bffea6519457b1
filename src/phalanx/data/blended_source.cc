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

SamplePlace BlendedSource::place_of(std::int64_t index) const {
  const BlendedSample at = index_.at(index);
  return sources_[static_cast<std::size_t>(at.dataset)]->place_of(at.sample);
}

std::optional<double> BlendedSource::mean_of_documents(const DocumentMeasure& measure) const {
  double sum = 0.0;
  double samples = 0.0;
  for (std::size_t d = 0; d < sources_.size(); ++d) {
    const auto mean = sources_[d]->mean_of_documents(measure);
    if (!mean) return std::nullopt;
    const auto count = static_cast<double>(index_.counts()[d]);
    sum += count * *mean;
    samples += count;
  }
  return sum / samples;
}

PaddedSource::PaddedSource(std::shared_ptr<const SampleSource> source, std::int64_t batch)
    : source_(std::move(source)), size_(round_up(source_->size(), batch)) {
  PHALANX_CHECK(source_->size() > 0, "padding of no samples");
}

SamplePlace PaddedSource::place_of(std::int64_t index) const {
  return source_->place_of(std::min(index, source_->size() - 1));
}

void PaddedSource::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  const std::int64_t last = source_->size() - 1;
  source_->fetch(std::min(index, last), sample, counts);
  if (index <= last) return;
  const auto columns = schema().columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == "loss_mask") std::ranges::fill(sample.column<float>(i), 0.0F);
    if (columns[i].name == "is_random") std::ranges::fill(sample.column<std::int32_t>(i), -1);
  }
  std::ranges::fill(counts, 0.0);
}

}  // namespace phalanx
