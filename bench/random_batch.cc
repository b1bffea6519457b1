#include "random_batch.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

namespace phalanx::bench {
namespace {

constexpr std::uint64_t kMaskedOfHundred = 15;

// SplitMix64's output function (Steele, Lea and Flood 2014) at a place of an endless stream.
std::uint64_t random_word(std::int64_t sample, std::int64_t place) {
  auto x = static_cast<std::uint64_t>(sample) << 20 ^ static_cast<std::uint64_t>(place);
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}

// Streams of a sample, by what they are for.
enum class Stream : std::uint8_t { kTokens, kDecoder, kMask };

std::uint64_t random_word(Stream stream, std::int64_t sample, std::int64_t place) {
  return random_word(sample, static_cast<std::int64_t>(stream) << 18 | place);
}

class Columns {
 public:
  Columns(const BatchSchema& schema, std::int64_t vocabulary)
      : vocabulary_(static_cast<std::uint64_t>(vocabulary)) {
    const auto has = [&](std::string_view name) {
      return std::ranges::any_of(schema.columns(),
                                 [&](const BatchColumn& column) { return column.name == name; });
    };
    has_masked_rows_ = has("is_random");
    has_decoder_ = has("decoder_tokens");
  }

  std::int64_t value(const BatchColumn& column, std::int64_t sample, std::int64_t place) const {
    const std::string_view name = column.name;
    if (name.ends_with("sample")) return sample;
    if (name.ends_with("position") || name.ends_with("position_ids")) return place;
    if (name == "tokens") return token(Stream::kTokens, sample, place);
    if (name == "decoder_tokens") return token(Stream::kDecoder, sample, place);
    if (name == "labels") {
      return token(has_decoder_ ? Stream::kDecoder : Stream::kTokens, sample, place + 1);
    }
    if (name == "loss_mask") {
      const bool counts = random_word(Stream::kMask, sample, place) % 100 < kMaskedOfHundred;
      return !has_masked_rows_ || counts ? 1 : 0;
    }
    if (name == "types") return 2 * place >= column.extents[0] ? 1 : 0;
    if (name == "is_random") return static_cast<std::int64_t>(random_word(sample, 0) % 2);
    return 0;  // documents
  }

 private:
  std::int64_t token(Stream stream, std::int64_t sample, std::int64_t place) const {
    return static_cast<std::int64_t>(random_word(stream, sample, place) % vocabulary_);
  }

  std::uint64_t vocabulary_;
  bool has_masked_rows_ = false;
  bool has_decoder_ = false;
};

template <typename T>
void fill(HostBatch& batch, const BatchColumn& column, std::int64_t first_sample,
          const Columns& columns) {
  const auto values = batch.column<T>(column.name);
  for (std::int64_t row = 0; row < std::ssize(values); ++row) {
    values[static_cast<std::size_t>(row)] = static_cast<T>(
        columns.value(column, first_sample + row % batch.samples(), row / batch.samples()));
  }
}

}  // namespace

HostBatch random_batch(const BatchSchema& schema, std::int64_t first_sample, std::int64_t samples,
                       std::int64_t vocabulary) {
  HostBatch batch(schema, samples);
  const Columns columns(schema, vocabulary);
  for (const BatchColumn& column : schema.columns()) {
    switch (column.dtype) {
      case DType::kI64:
        fill<std::int64_t>(batch, column, first_sample, columns);
        break;
      case DType::kF32:
        fill<float>(batch, column, first_sample, columns);
        break;
      default:
        fill<std::int32_t>(batch, column, first_sample, columns);
    }
  }
  return batch;
}

std::vector<double> loss_counts(const Model& model, std::span<const HostBatch> batches) {
  std::vector<double> counts;
  for (const LossSpec& loss : model.losses()) {
    double count = 0.0;
    for (const HostBatch& batch : batches) {
      if (loss.mask.empty()) {
        count += static_cast<double>(batch.samples());
      } else {
        const auto mask = batch.column<float>(loss.mask);
        count = std::accumulate(mask.begin(), mask.end(), count);
      }
    }
    counts.push_back(count);
  }
  return counts;
}

}  // namespace phalanx::bench
