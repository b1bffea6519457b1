#include "phalanx/data/packed_samples.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/indexed_dataset.h"

namespace phalanx {
namespace {

PackIndex make_index(const SequenceLengths& lengths, const PackIndexOptions& options,
                     const IndexCache* cache) {
  return cache == nullptr ? build_pack_index(lengths, options)
                          : cached_pack_index(lengths, options, *cache);
}

// Sequential order begins again at the first pack.
std::int64_t size_of(const PackIndex& index, const PackIndexOptions& options) {
  if (options.order == DataOrder::kMegatron) return index.shuffle.size();
  return std::max<std::int64_t>(1, ceil_div(options.samples.value_or(0), index.packs())) *
         index.packs();
}

}  // namespace

PackedSamples::PackedSamples(std::shared_ptr<const TokenSequences> data, IndexRange range,
                             std::int64_t vocabulary_size, const PackIndexOptions& index,
                             const GptBatchOptions& batch, BatchSchema schema,
                             const IndexCache* cache)
    : data_(std::move(data)),
      range_(range),
      vocabulary_size_(vocabulary_size),
      sequence_length_(index.sequence_length),
      document_multiple_(index.document_multiple),
      batch_(batch),
      schema_(std::move(schema)),
      index_(make_index(data_->lengths(range.begin, range.end), index, cache)),
      size_(size_of(index_, index)) {
  check_gpt_options(batch_);
}

void PackedSamples::fetch(std::int64_t i, Sample& sample, std::span<double> counts) const {
  PHALANX_CHECK(i >= 0 && i < size_, "sample {} of {}", i, size_);
  // Every number is checked where it is used, because the index may come from a file.
  const std::int64_t pack = index_.shuffle.empty() ? i % index_.packs() : index_.shuffle[i];
  if (pack >= index_.packs()) refuse_index(i);
  const std::int64_t begin = index_.begins[pack];
  const std::int64_t end = index_.begins[pack + 1];
  if (begin < 0 || end < begin || end > index_.documents.size()) refuse_index(i);
  thread_local std::vector<std::int32_t> tokens;  // so that a step allocates nothing
  thread_local std::vector<std::int64_t> lengths;
  thread_local std::vector<std::uint8_t> trained;
  tokens.resize(static_cast<std::size_t>(sequence_length_));
  lengths.clear();
  trained.clear();
  std::size_t filled = 0;
  std::int64_t rows = 0;
  for (std::int64_t at = begin; at < end; ++at) {
    const std::int64_t document = index_.documents[at];
    if (document >= range_.size()) refuse_index(i);
    const std::int64_t sequence = range_.begin + document;
    const std::int64_t length = std::min<std::int64_t>(data_->length(sequence), sequence_length_);
    const auto count = static_cast<std::size_t>(length);
    rows += round_up(length, document_multiple_);
    if (rows > sequence_length_) refuse_index(i);
    read_ids(*data_, sequence, 0, vocabulary_size_, std::span(tokens).subspan(filled, count));
    const auto marks = data_->trained(sequence);
    trained.insert(trained.end(), marks.begin(),
                   marks.begin() + static_cast<std::ptrdiff_t>(std::min(count, marks.size())));
    lengths.push_back(length);
    filled += count;
  }
  counts[0] =
      fill_packed_sample(std::span(tokens).first(filled),
                         {.lengths = lengths, .multiple = document_multiple_, .trained = trained},
                         batch_, schema_, sample);
}

std::optional<double> PackedSamples::mean_of_documents(const DocumentMeasure& measure) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(sequence_length_) + 1);  // by length
  for (std::int64_t at = 0; at < index_.documents.size(); ++at) {
    const std::int64_t document = index_.documents[at];
    if (document >= range_.size()) refuse_index(at);
    const std::int64_t length = data_->length(range_.begin + document);
    ++counts[static_cast<std::size_t>(std::min(length, sequence_length_))];
  }
  double sum = 0.0;
  for (std::int64_t length = 1; length <= sequence_length_; ++length) {
    const std::int64_t count = counts[static_cast<std::size_t>(length)];
    if (count > 0) sum += static_cast<double>(count) * measure(length);
  }
  return sum / static_cast<double>(index_.packs());
}

void PackedSamples::refuse_index(std::int64_t i) const {
  throw DataError(
      "{}: what it says of sample {} is no pack of {}: it or that file changed while it was open. "
      "Start again, and it is made anew",
      index_.file.empty() ? "the index in memory" : index_.file, i, data_->name());
}

}  // namespace phalanx
