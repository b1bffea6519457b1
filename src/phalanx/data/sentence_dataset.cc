#include "phalanx/data/sentence_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

void check_masked_options(const MaskedOptions& options, std::string_view model,
                          std::span<const NeededToken> needed) {
  PHALANX_CHECK(options.vocabulary != nullptr, "{} without a vocabulary", model);
  for (const NeededToken& token : needed) {
    if (token.id >= 0) continue;
    throw ConfigError(
        "{} needs a tokenizer with {}, which this one lacks: give --tokenizer-type "
        "BertWordPieceLowerCase or BertWordPieceCase, or the HuggingFaceTokenizer of a folder "
        "whose "
        "config.json and tokenizer_config.json name it",
        model, token.name);
  }
  // Batches are padded with 0, so no other token may have this id.
  if (options.vocabulary->pad != 0) {
    throw ConfigError("{} needs a tokenizer whose padding is id 0, and here it is {}", model,
                      options.vocabulary->pad);
  }
  if (!(options.mask_prob > 0.0 && options.mask_prob < 1.0)) {
    throw ConfigError("--mask-prob {}: give a number above 0 and below 1", options.mask_prob);
  }
  if (!(options.short_seq_prob >= 0.0 && options.short_seq_prob <= 1.0)) {
    throw ConfigError("--short-seq-prob {}: give a number from 0 to 1", options.short_seq_prob);
  }
}

void fill_coordinates(std::span<std::int32_t> position, std::span<std::int32_t> position_ids,
                      std::span<std::int32_t> document, std::int64_t real) {
  std::iota(position.begin(), position.end(), 0);
  std::iota(position_ids.begin(), position_ids.end(), 0);
  std::ranges::fill(document, -1);
  std::fill_n(document.begin(), real, 0);
}

SentenceDataset::SentenceDataset(std::shared_ptr<const IndexedDataset> data, IndexRange documents,
                                 std::int64_t vocabulary_size,
                                 const SentenceMappingOptions& options, const IndexCache* cache)
    : data_(std::move(data)),
      vocabulary_size_(vocabulary_size),
      min_sentences_(options.min_sentences),
      max_length_(options.max_length),
      first_(data_->document_begin(documents.begin)),
      end_(data_->document_begin(documents.end)),
      mapping_(cache == nullptr ? build_sentence_mapping(*data_, documents, options)
                                : cached_sentence_mapping(*data_, documents, options, *cache)) {}

SentenceSpan SentenceDataset::span(std::int64_t i) const {
  PHALANX_CHECK(i >= 0 && i < size(), "sample {} of {}", i, size());
  // Checked where it is used, because the rows may come from a file.
  const SentenceSpan span = mapping_[i];
  if (span.first < first_ || span.end > end_ || span.end - span.first < min_sentences_ ||
      span.target < 2 || span.target > max_length_) {
    throw DataError(
        "{}: what it says of sample {} is no place in {}: it or that file changed while it was "
        "open. Start again, and it is made anew",
        mapping_.file.empty() ? "the index in memory" : mapping_.file, i, idx_path(data_->name()));
  }
  return span;
}

std::int64_t SentenceDataset::length(std::int64_t first, std::int64_t end) const {
  std::int64_t tokens = 0;
  for (std::int64_t j = first; j < end; ++j) tokens += data_->length(j);
  return tokens;
}

void SentenceDataset::read(std::int64_t first, std::int64_t end, std::int64_t offset,
                           std::span<std::int32_t> out) const {
  for (std::int64_t j = first; j < end && !out.empty(); ++j) {
    const std::int64_t length = data_->length(j);
    if (offset >= length) {
      offset -= length;
      continue;
    }
    const auto count = std::min(out.size(), static_cast<std::size_t>(length - offset));
    read_ids(*data_, j, offset, vocabulary_size_, out.first(count));
    out = out.subspan(count);
    offset = 0;
  }
  if (!out.empty()) {
    throw DataError("{}: sentences {} to {} changed while it was open", idx_path(data_->name()),
                    first, end);
  }
}

std::string SentenceDataset::text_of(std::int64_t i) const {
  const SentenceSpan span = mapping_[i];
  return fmt::format("sample {} of {} (sentences {} to {})", i, data_->name(), span.first,
                     span.end - 1);
}

}  // namespace phalanx
