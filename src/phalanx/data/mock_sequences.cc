#include "phalanx/data/mock_sequences.h"

#include "phalanx/base/error.h"
#include "phalanx/data/pcg64.h"

namespace phalanx {
namespace {

constexpr std::size_t kMockDocuments = 100000;
constexpr std::uint32_t kLongestMock = 4095;

}  // namespace

MockSequences::MockSequences(std::int64_t vocabulary_size, std::int32_t eod)
    : vocabulary_size_(vocabulary_size), eod_(eod), lengths_(kMockDocuments) {
  if (eod < 0) {
    throw ConfigError("--mock-data needs a tokenizer with an end-of-document token");
  }
  Pcg64 random(0);
  for (std::int32_t& length : lengths_) {
    length = static_cast<std::int32_t>(1 + random.below(kLongestMock));
  }
}

std::int32_t MockSequences::length(std::int64_t sequence) const {
  return lengths_[static_cast<std::size_t>(sequence)];
}

void MockSequences::get(std::int64_t sequence, std::int64_t offset,
                        std::span<std::int32_t> out) const {
  const std::int64_t last = length(sequence) - 1;
  for (std::int32_t& id : out) {
    id = offset == last ? eod_ : static_cast<std::int32_t>((offset + 1) % vocabulary_size_);
    ++offset;
  }
}

}  // namespace phalanx
