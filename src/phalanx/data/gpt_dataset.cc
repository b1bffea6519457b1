#include "phalanx/data/gpt_dataset.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

GptIndex make_index(const SequenceLengths& lengths, const GptIndexOptions& options,
                    const IndexCache* cache) {
  return cache == nullptr ? build_gpt_index(lengths, options)
                          : cached_gpt_index(lengths, options, *cache);
}

// Sequential order begins again at the start of the file.
std::int64_t size_of(const GptIndex& index, const GptIndexOptions& options) {
  if (options.order == DataOrder::kMegatron || index.samples() == 0) return index.samples();
  return std::max<std::int64_t>(1, ceil_div(options.samples.value_or(0), index.samples())) *
         index.samples();
}

}  // namespace

GptDataset::GptDataset(std::shared_ptr<const TokenSequences> data, IndexRange range,
                       std::int64_t vocabulary_size, const GptIndexOptions& options,
                       const IndexCache* cache)
    : data_(std::move(data)),
      range_(range),
      vocabulary_size_(vocabulary_size),
      sequence_length_(options.sequence_length),
      index_(make_index(data_->lengths(range.begin, range.end), options, cache)),
      size_(size_of(index_, options)) {}

std::int64_t GptDataset::sample(std::int64_t i, std::span<std::int32_t> tokens) const {
  PHALANX_CHECK(i >= 0 && i < size_, "sample {} of {}", i, size_);
  PHALANX_CHECK(static_cast<std::int64_t>(tokens.size()) == sequence_length_ + 1,
                "a sample has {} tokens, not {}", sequence_length_ + 1, tokens.size());
  // Every number is checked where it is used, because index and lengths may come from a file.
  const std::int64_t row = index_.shuffle.empty() ? i % index_.samples() : index_.shuffle[i];
  if (row < 0 || row >= index_.samples()) refuse_index(i);
  const SampleStart first = index_.start(row);
  const SampleStart last = index_.start(row + 1);
  if (first.document < 0 || last.document >= visits()) refuse_index(i);
  std::size_t filled = 0;
  for (std::int64_t visit = first.document; visit <= last.document; ++visit) {
    const std::int64_t document = index_.documents.empty() ? visit : index_.documents[visit];
    if (document < 0 || document >= range_.size()) refuse_index(i);
    const std::int64_t sequence = range_.begin + document;
    const std::int64_t length = data_->length(sequence);
    const std::int64_t begin = visit == first.document ? first.offset : 0;
    const std::int64_t end = visit == last.document ? last.offset + std::int64_t{1} : length;
    const auto count = static_cast<std::size_t>(end - begin);
    if (begin < 0 || end < begin || end > length || count > tokens.size() - filled) {
      if (!index_.file.empty()) refuse_index(i);
      throw DataError("{}: sequence {} changed while it was open", idx_path(data_->name()),
                      sequence);
    }
    read_ids(*data_, sequence, begin, vocabulary_size_, tokens.subspan(filled, count));
    filled += count;
  }
  std::fill(tokens.begin() + static_cast<std::ptrdiff_t>(filled), tokens.end(), 0);
  return static_cast<std::int64_t>(filled);
}

std::int64_t GptDataset::visits() const {
  return index_.documents.empty() ? range_.size() : index_.documents.size();
}

void GptDataset::refuse_index(std::int64_t i) const {
  throw DataError(
      "{}: what it says of sample {} is no place in {}: it or that file changed while it was open. "
      "Start again, and it is made anew",
      index_.file.empty() ? "the index in memory" : index_.file, i, idx_path(data_->name()));
}

}  // namespace phalanx
