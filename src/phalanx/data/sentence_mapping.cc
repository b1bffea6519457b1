#include "phalanx/data/sentence_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/memory_need.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/index_cache.h"

namespace phalanx {
namespace {

constexpr std::int64_t kEntries = 3;  // of a sample
// Far more than memory holds, and no product of two counts overflows.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;
constexpr std::int64_t kDocumentsBetweenPolls = 1 << 14;
constexpr std::int64_t kSwapsBetweenPolls = 1 << 20;

// The lengths of the samples to come, in tokens. One draw says both whether a sample is short and
// how short.
class Targets {
 public:
  explicit Targets(const SentenceMappingOptions& options)
      : random_(options.seed), max_length_(options.max_length) {
    // Smaller probabilities have the same effect as this one.
    constexpr double kMostRatio = 4294967296.0;
    if (options.short_seq_prob > 0.0) {
      ratio_ =
          static_cast<std::int64_t>(std::min(kMostRatio, std::round(1.0 / options.short_seq_prob)));
    }
  }
  std::int64_t next() {
    if (ratio_ == 0) return max_length_;  // without a draw
    const auto draw = static_cast<std::int64_t>(random_());
    return draw % ratio_ == 0 ? 2 + draw % (max_length_ - 1) : max_length_;
  }

 private:
  std::mt19937 random_;
  std::int64_t max_length_;
  std::int64_t ratio_ = 0;
};

class Walk {
 public:
  Walk(const IndexedDataset& data, IndexRange documents, const SentenceMappingOptions& options)
      : data_(data),
        lengths_(data.lengths(0, data.sequences())),
        documents_(documents),
        options_(options) {}

  // Calls add(span) for every sample, in order of documents, epoch after epoch; returns how many
  // there are.
  template <typename Add>
  std::int64_t run(Add add) const {
    Targets targets(options_);
    const std::int64_t most = options_.samples.value_or(kMostSamples);
    const std::int64_t epochs = options_.samples ? options_.most_epochs : 1;
    std::int64_t samples = 0;
    // Checked only between epochs: a whole epoch is made even if only one sample is missing.
    for (std::int64_t epoch = 0; epoch < epochs && samples < most; ++epoch) {
      const std::int64_t before = samples;
      for (std::int64_t d = documents_.begin; d < documents_.end; ++d) {
        if (options_.poll && d % kDocumentsBetweenPolls == 0) options_.poll();
        const std::int64_t end = data_.document_begin(d + 1);
        if (is_used(data_.document_begin(d), end)) {
          samples += cut(data_.document_begin(d), end, targets, add);
        }
      }
      if (samples == before) refuse();
    }
    return samples;
  }

 private:
  bool has_long(std::int64_t first, std::int64_t end) const {
    for (std::int64_t j = first; j < end; ++j) {
      if (lengths_[j] > kLongestSentence) return true;
    }
    return false;
  }
  bool is_used(std::int64_t first, std::int64_t end) const {
    const std::int64_t count = end - first;
    return count > 0 && count >= options_.min_sentences && !(count > 1 && has_long(first, end));
  }
  // A sample never leaves a single sentence after it, so the last sample has enough, too.
  template <typename Add>
  std::int64_t cut(std::int64_t first, std::int64_t end, Targets& targets, Add add) const {
    std::int64_t samples = 0;
    std::int64_t length = 0;
    std::int64_t target = targets.next();
    for (std::int64_t j = first; j < end; ++j) {
      length += lengths_[j];
      const std::int64_t left = end - j - 1;
      const bool is_full = length >= target && left > 1 && j + 1 - first >= options_.min_sentences;
      if (!is_full && left > 0) continue;
      add(SentenceSpan{first, j + 1, target});
      ++samples;
      first = j + 1;
      target = targets.next();  // also after the last sample, where it is not used
      length = 0;
    }
    return samples;
  }
  [[noreturn]] void refuse() const {
    std::int64_t few = 0;
    std::int64_t long_ones = 0;
    for (std::int64_t d = documents_.begin; d < documents_.end; ++d) {
      const std::int64_t first = data_.document_begin(d);
      const std::int64_t end = data_.document_begin(d + 1);
      const bool has_few = end - first < std::max<std::int64_t>(1, options_.min_sentences);
      (has_few ? few : long_ones) += 1;
    }
    throw ConfigError(
        "none of {} documents can be used: {} have fewer than {}, and {} have a sentence of more "
        "than {} tokens. Preprocess the text with --split-sentences",
        format_count(documents_.size()), format_count(few),
        options_.min_sentences > 1 ? fmt::format("{} sentences", options_.min_sentences)
                                   : "1 sentence",
        format_count(long_ones), kLongestSentence);
  }

  const IndexedDataset& data_;
  SequenceLengths lengths_;
  IndexRange documents_;
  const SentenceMappingOptions& options_;
};

int width_of(const IndexedDataset& data, const SentenceMappingOptions& options) {
  return data.sequences() > options.largest_narrow ? 8 : 4;
}

void check_mapping_options(const SentenceMappingOptions& options) {
  if (options.max_length < 2) {
    throw ConfigError("samples of {} tokens are too short: give a longer --seq-length",
                      options.max_length);
  }
  if (const std::int64_t samples = options.samples.value_or(0);
      samples < 0 || samples > kMostSamples) {
    throw ConfigError("{} samples are requested; a dataset gives 0 to {}", format_count(samples),
                      format_count(kMostSamples));
  }
}

// Samples as they are stored, one behind the other.
template <typename T>
void fill_rows(const Walk& walk, const SentenceMappingOptions& options, std::span<T> entries) {
  std::size_t at = 0;
  const std::int64_t samples = walk.run([&](const SentenceSpan& span) {
    PHALANX_CHECK(at + kEntries <= entries.size(), "more samples than were counted");
    for (const std::int64_t entry : {span.first, span.end, span.target}) {
      entries[at++] = static_cast<T>(entry);
    }
  });
  std::mt19937_64 random(std::uint64_t{options.seed} + 1);
  for (std::int64_t i = samples - 1; i > 0; --i) {
    if (options.poll && i % kSwapsBetweenPolls == 0) options.poll();
    const auto j = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(i + 1));
    std::swap_ranges(entries.begin() + kEntries * i, entries.begin() + kEntries * (i + 1),
                     entries.begin() + kEntries * j);
  }
}

IndexBlock build_rows(const IndexedDataset& data, IndexRange documents,
                      const SentenceMappingOptions& options) {
  const std::int64_t row = kEntries * width_of(data, options);
  const AvailableMemory memory = available_memory();
  const std::int64_t most = memory.bytes / row;
  const auto expect_fits = [&](std::int64_t samples) {
    expect_memory(fmt::format("the order of {} samples", format_count(samples)),
                  static_cast<double>(samples) * static_cast<double>(row),
                  "train for fewer samples", memory);
  };
  std::int64_t counted = 0;
  const Walk walk(data, documents, options);
  const std::int64_t samples = walk.run([&](const SentenceSpan&) {
    if (++counted > most) expect_fits(counted);
  });
  const auto bytes = static_cast<std::size_t>(samples * row);
  const std::shared_ptr<std::byte[]> block(new std::byte[bytes]);
  const auto entries = static_cast<std::size_t>(samples * kEntries);
  if (width_of(data, options) == 8) {
    fill_rows(walk, options, std::span(reinterpret_cast<std::int64_t*>(block.get()), entries));
  } else {
    fill_rows(walk, options, std::span(reinterpret_cast<std::uint32_t*>(block.get()), entries));
  }
  return IndexBlock::in_memory(block, samples * row);
}

// The digest of the document boundaries, hashed in pieces of a page.
std::uint64_t digest_of_boundaries(const IndexedDataset& data, IndexRange documents) {
  Xxh3 digest;
  std::vector<std::int64_t> piece;
  for (std::int64_t d = documents.begin; d <= documents.end; ++d) {
    piece.push_back(data.document_begin(d));
    if (piece.size() < 512 && d < documents.end) continue;
    digest.update(std::as_bytes(std::span(piece)));
    piece.clear();
  }
  return digest.digest();
}

// Everything that decides the block. Of a dataset only lengths and boundaries decide the order.
std::string describe_rows(const IndexedDataset& data, IndexRange documents,
                          const SentenceMappingOptions& options) {
  const std::int64_t first = data.document_begin(documents.begin);
  const std::int64_t end = data.document_begin(documents.end);
  return fmt::format(
      "order of samples of sentences, version 1\ndocuments: {} from {} on\n"
      "xxh3 of their boundaries: {}\nsentences: {}\nxxh3 of their lengths: {}\nlongest: {}\n"
      "short: {}\nleast sentences: {}\nsamples: {}\nepochs: {}\nseed: {}\nbytes of entries: {}\n",
      documents.size(), documents.begin, digest_to_text(digest_of_boundaries(data, documents)),
      end - first, digest_to_text(xxh3(data.lengths(first, end).bytes())), options.max_length,
      options.short_seq_prob, options.min_sentences,
      options.samples ? fmt::to_string(*options.samples) : "one epoch", options.most_epochs,
      options.seed, width_of(data, options));
}

// A file may hold anything: its rows are checked where they are read.
SentenceMapping view_rows(const IndexBlock& block, int width,
                          const SentenceMappingOptions& options) {
  const auto bytes = std::ssize(block.bytes);
  if (bytes % (kEntries * width) != 0 || (bytes == 0 && options.samples != 0)) {
    throw DataError("{}: {} bytes are no samples of {} each; remove it, and it is made anew",
                    block.file, bytes, kEntries * width);
  }
  return {.rows = {block.bytes, width}, .owner = block.owner, .file = block.file};
}

}  // namespace

SentenceMapping build_sentence_mapping(const IndexedDataset& data, IndexRange documents,
                                       const SentenceMappingOptions& options) {
  check_mapping_options(options);
  return view_rows(build_rows(data, documents, options), width_of(data, options), options);
}

SentenceMapping cached_sentence_mapping(const IndexedDataset& data, IndexRange documents,
                                        const SentenceMappingOptions& options,
                                        const IndexCache& cache) {
  check_mapping_options(options);
  const IndexRequest request{.name = "sentences",
                             .description = describe_rows(data, documents, options),
                             .bytes = std::nullopt};
  const auto build = [&] { return build_rows(data, documents, options); };
  return view_rows(cache.get(request, build, options.poll), width_of(data, options), options);
}

}  // namespace phalanx
