#include "phalanx/data/host_batch.h"

#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/text_batches.h"

namespace phalanx {
namespace {

// Elements of one sample become one column of a [count, samples] matrix. Returns where the next
// ones go.
template <typename T>
std::byte* scatter(std::span<const std::byte> from, std::byte* to, std::int64_t samples) {
  if (samples == 1) {
    std::memcpy(to, from.data(), from.size());
    return to + from.size();
  }
  const std::size_t step = static_cast<std::size_t>(samples) * sizeof(T);
  for (std::size_t i = 0; i < from.size() / sizeof(T); ++i, to += step) {
    std::memcpy(to, from.data() + i * sizeof(T), sizeof(T));
  }
  return to;
}

std::byte* scatter(std::span<const std::byte> from, std::byte* to, std::int64_t samples,
                   std::int64_t width) {
  switch (width) {
    case 1:
      return scatter<std::uint8_t>(from, to, samples);
    case 4:
      return scatter<std::int32_t>(from, to, samples);
    default:
      PHALANX_CHECK(width == 8, "a column of {}-byte elements", width);
      return scatter<std::int64_t>(from, to, samples);
  }
}

}  // namespace

HostBatch::HostBatch(const BatchSchema& schema, std::int64_t samples, ContextCut cut, int rank)
    : schema_(context_schema(schema, cut.ranks())),
      cut_(cut),
      rank_(rank),
      samples_(samples),
      bytes_(static_cast<std::size_t>(schema_.bytes(samples))),
      words_((bytes_ + sizeof(std::int64_t) - 1) / sizeof(std::int64_t)) {
  PHALANX_CHECK(rank >= 0 && rank < cut.ranks(), "the batch of rank {} of {}", rank, cut.ranks());
}

void HostBatch::cut_rows(const Sample& sample) {
  const std::size_t column = schema_.index("document");
  const auto documents = sample.column<std::int32_t>(column);
  rows_.clear();
  begins_.assign(1, 0);
  for (int rank = 0; rank < cut_.ranks(); ++rank) {
    cut_.append_rows(std::ssize(documents), documents, rank, rows_);
    begins_.push_back(rows_.size());
  }
}

std::span<const ContextCut::Range> HostBatch::rows_of(const BatchColumn& column) const {
  const std::span all(rows_);
  if (has_all_context_rows(column)) return all;
  const auto rank = static_cast<std::size_t>(rank_);
  return all.subspan(begins_[rank], begins_[rank + 1] - begins_[rank]);
}

void HostBatch::put(std::int64_t place, std::int64_t number, const Sample& sample) {
  PHALANX_CHECK(place >= 0 && place < samples_, "place {} of {} samples", place, samples_);
  const bool is_cut = cut_.ranks() > 1;
  if (is_cut) cut_rows(sample);
  auto* const begin = reinterpret_cast<std::byte*>(words_.data());
  for (std::size_t i = 0; i < schema_.columns().size(); ++i) {
    const BatchColumn& column = schema_.columns()[i];
    const std::int64_t width = size_of(column.dtype);
    std::byte* to = begin + schema_.offset(i, samples_) + place * width;
    if (column.name == "sample" || column.name == "decoder_sample") {
      PHALANX_CHECK(column.dtype == DType::kI64, "numbers of samples are i64");
      for (std::int64_t row = 0; row < column.extents.count(); ++row) {
        std::memcpy(to + row * samples_ * width, &number, sizeof number);
      }
      continue;
    }
    const auto from = sample.bytes(i);
    if (!is_cut) {
      scatter(from, to, samples_, width);
      continue;
    }
    for (const auto& [first, count] : rows_of(column)) {
      to = scatter(from.subspan(static_cast<std::size_t>(first * width),
                                static_cast<std::size_t>(count * width)),
                   to, samples_, width);
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
