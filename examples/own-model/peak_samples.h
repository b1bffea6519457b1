#pragma once
// Sequences of random numbers, and whether each is a peak: above all others up to a distance. A
// sample is a pure function of the seed and its index, so every layout sees the same.

#include <cstdint>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/data_sources.h"

namespace peaks {

struct PeakOptions {
  std::int64_t sequence = 0;
  std::int64_t numbers = 0;   // they are below this
  std::int64_t distance = 1;  // of neighbours that a peak is above
  std::uint32_t seed = 1234;
};

// numbers, position_ids and peaks (0 or 1), i32; counted (f32), which rows count; and the
// coordinates of rows that every model has: sample, position, document.
phalanx::BatchSchema peak_schema(std::int64_t sequence);

class PeakSamples final : public phalanx::SampleSource {
 public:
  PeakSamples(const PeakOptions& options, std::int64_t first, std::int64_t size);

  std::int64_t size() const override { return size_; }
  const phalanx::BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  void fetch(std::int64_t index, phalanx::Sample& sample, std::span<double> counts) const override;

 private:
  PeakOptions options_;
  phalanx::BatchSchema schema_;
  std::int64_t first_, size_;
};

// --mock-data is all there is: this model reads no files.
class PeakSources final : public phalanx::DataSources {
 public:
  explicit PeakSources(const PeakOptions& options) : DataSources(nullptr), options_(options) {}

  std::shared_ptr<const phalanx::SampleSource> make_mock(
      const phalanx::SourceRequest& request) override;

 private:
  std::string_view element_name() const override { return "sequences"; }
  std::int64_t elements(const phalanx::IndexedDataset& file) const override;
  std::shared_ptr<const phalanx::SampleSource> samples_of(
      const std::shared_ptr<const phalanx::IndexedDataset>& file, phalanx::IndexRange range,
      std::optional<std::int64_t> samples) const override;

  PeakOptions options_;
};

}  // namespace peaks
