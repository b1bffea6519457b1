#include "phalanx/data/host_batch.h"

#include <cstring>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Elements of one sample become one column of a [count, samples] matrix.
template <typename T>
void scatter(std::span<const std::byte> from, std::byte* to, std::int64_t samples) {
  if (samples == 1) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  for (std::size_t i = 0; i < from.size() / sizeof(T); ++i) {
    std::memcpy(to + i * static_cast<std::size_t>(samples) * sizeof(T), from.data() + i * sizeof(T),
                sizeof(T));
  }
}

}  // namespace

HostBatch::HostBatch(BatchSchema schema, std::int64_t samples)
    : schema_(std::move(schema)),
      samples_(samples),
      bytes_(static_cast<std::size_t>(schema_.bytes(samples))),
      words_((bytes_ + sizeof(std::int64_t) - 1) / sizeof(std::int64_t)) {}

void HostBatch::put(std::int64_t place, std::int64_t number, const Sample& sample) {
  PHALANX_CHECK(place >= 0 && place < samples_, "place {} of {} samples", place, samples_);
  auto* const begin = reinterpret_cast<std::byte*>(words_.data());
  for (std::size_t i = 0; i < schema_.columns().size(); ++i) {
    const BatchColumn& column = schema_.columns()[i];
    const std::int64_t width = size_of(column.dtype);
    std::byte* const to = begin + schema_.offset(i, samples_) + place * width;
    if (column.name == "sample" || column.name == "decoder_sample") {
      PHALANX_CHECK(column.dtype == DType::kI64, "numbers of samples are i64");
      for (std::int64_t row = 0; row < column.extents.count(); ++row) {
        std::memcpy(to + row * samples_ * width, &number, sizeof number);
      }
      continue;
    }
    const auto from = sample.bytes(i);
    switch (width) {
      case 1:
        scatter<std::uint8_t>(from, to, samples_);
        break;
      case 4:
        scatter<std::int32_t>(from, to, samples_);
        break;
      default:
        PHALANX_CHECK(width == 8, "a column of {}-byte elements", width);
        scatter<std::int64_t>(from, to, samples_);
    }
  }
}

std::span<std::byte> HostBatch::memory(std::string_view name, std::size_t element) {
  const std::size_t index = schema_.index(name);
  PHALANX_CHECK(element == static_cast<std::size_t>(size_of(schema_.columns()[index].dtype)),
                "column {} read as elements of {} bytes", name, element);
  auto* const begin = reinterpret_cast<std::byte*>(words_.data());
  return {begin + schema_.offset(index, samples_),
          static_cast<std::size_t>(schema_.bytes_of(index, samples_))};
}

}  // namespace phalanx
