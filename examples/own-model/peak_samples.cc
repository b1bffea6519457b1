#include "peak_samples.h"

#include <algorithm>
#include <random>

#include "phalanx/base/error.h"

namespace peaks {
namespace {

// The parts of a run never share a sample.
constexpr std::int64_t kSamplesOfSplit = std::int64_t{1} << 40;

}  // namespace

phalanx::BatchSchema peak_schema(std::int64_t sequence) {
  const phalanx::Shape extents{sequence};
  using phalanx::DType;
  return phalanx::BatchSchema({{.name = "sample", .dtype = DType::kI64, .extents = extents},
                               {.name = "counted", .dtype = DType::kF32, .extents = extents},
                               {.name = "numbers", .dtype = DType::kI32, .extents = extents},
                               {.name = "position_ids", .dtype = DType::kI32, .extents = extents},
                               {.name = "peaks", .dtype = DType::kI32, .extents = extents},
                               {.name = "position", .dtype = DType::kI32, .extents = extents},
                               {.name = "document", .dtype = DType::kI32, .extents = extents}});
}

PeakSamples::PeakSamples(const PeakOptions& options, std::int64_t first, std::int64_t size)
    : options_(options), schema_(peak_schema(options.sequence)), first_(first), size_(size) {}

void PeakSamples::fetch(std::int64_t index, phalanx::Sample& sample,
                        std::span<double> counts) const {
  std::mt19937_64 random(static_cast<std::uint64_t>(options_.seed) * 1000003U +
                         static_cast<std::uint64_t>(first_ + index));
  const auto column = [&](const char* name) {
    return sample.column<std::int32_t>(schema_.index(name));
  };
  const auto numbers = column("numbers");
  for (auto& number : numbers) {
    number = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(options_.numbers));
  }
  const auto length = static_cast<std::int64_t>(numbers.size());
  for (std::int64_t i = 0; i < length; ++i) {
    bool is_peak = true;
    for (std::int64_t j = std::max<std::int64_t>(0, i - options_.distance);
         j <= std::min(length - 1, i + options_.distance); ++j) {
      is_peak = is_peak && (j == i || numbers[j] < numbers[i]);
    }
    column("peaks")[i] = is_peak ? 1 : 0;
    column("position")[i] = column("position_ids")[i] = static_cast<std::int32_t>(i);
    column("document")[i] = 0;
  }
  std::ranges::fill(sample.column<float>(schema_.index("counted")), 1.0F);
  counts[0] = static_cast<double>(length);
}

std::shared_ptr<const phalanx::SampleSource> PeakSources::make_mock(
    const phalanx::SourceRequest& request) {
  if (request.samples == 0) return nullptr;
  return std::make_shared<const PeakSamples>(
      options_, static_cast<std::int64_t>(request.kind) * kSamplesOfSplit,
      request.samples.value_or(1000));
}

std::int64_t PeakSources::elements(const phalanx::IndexedDataset& /*file*/) const {
  throw phalanx::ConfigError("--data-path: sequences with peaks are made up; give --mock-data");
}

std::shared_ptr<const phalanx::SampleSource> PeakSources::samples_of(
    const std::shared_ptr<const phalanx::IndexedDataset>& /*file*/, phalanx::IndexRange /*range*/,
    std::optional<std::int64_t> /*samples*/) const {
  throw phalanx::ConfigError("--data-path: sequences with peaks are made up; give --mock-data");
}

}  // namespace peaks
