#include "phalanx/data/t5_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::int64_t kLeftFree = 2;  // of the encoder's length; it stays empty, as in Megatron

SentenceMappingOptions t5_mapping_options(const T5Options& options,
                                          std::optional<std::int64_t> samples) {
  return {.samples = samples,
          .max_length = options.common.sequence_length - kLeftFree,
          .short_seq_prob = options.common.short_seq_prob,
          .seed = options.common.seed,
          .min_sentences = 1,
          .poll = options.common.poll};
}

const T5Options& checked_t5(const T5Options& options) {
  check_t5_options(options);
  return options;
}

// Fills a list of fixed length from its front, and the rest with `padding`.
class Filler {
 public:
  Filler(std::vector<std::int32_t>& list, std::int64_t size, std::int32_t padding) : list_(list) {
    list_.assign(static_cast<std::size_t>(size), padding);
  }
  void add(std::int32_t value) { list_[filled_++] = value; }
  std::int64_t filled() const { return static_cast<std::int64_t>(filled_); }

 private:
  std::vector<std::int32_t>& list_;
  std::size_t filled_ = 0;
};

}  // namespace

void check_t5_options(const T5Options& options) {
  const MaskedOptions& common = options.common;
  PHALANX_CHECK(common.vocabulary != nullptr, "T5 without a vocabulary");
  const MaskingVocabulary& vocabulary = *common.vocabulary;
  check_masked_options(
      common, "T5",
      std::array<NeededToken, 3>{
          {{vocabulary.bos, "[BOS]"}, {vocabulary.eos, "[EOS]"}, {vocabulary.pad, "[PAD]"}}});
  if (vocabulary.sentinels.empty()) {
    throw ConfigError(
        "T5 puts sentinels in place of spans, and this tokenizer has none: give --vocab-extra-ids "
        "100, or a tokenizer.json that has <extra_id_0>, <extra_id_1>, ...");
  }
  if (common.sequence_length < kLeftFree + 2) {
    throw ConfigError("--seq-length {}: a sample of T5 has at least {} tokens",
                      common.sequence_length, kLeftFree + 2);
  }
  if (options.decoder_sequence_length < 1) {
    throw ConfigError("--decoder-seq-length must be given for T5");
  }
}

std::int64_t most_spans(const T5Options& options) {
  const auto tokens = static_cast<double>(options.common.sequence_length - kLeftFree);
  return static_cast<std::int64_t>(std::floor(options.common.mask_prob * tokens));
}

std::int64_t most_decoder_tokens(const T5Options& options) {
  return 1 + 2 * most_spans(options);  // every token a span, and its sentinel
}

T5Dataset::T5Dataset(std::shared_ptr<const IndexedDataset> data, IndexRange documents,
                     std::optional<std::int64_t> samples, const T5Options& options)
    : sentences_(std::move(data), documents, checked_t5(options).common.vocabulary->size,
                 t5_mapping_options(options, samples), options.common.cache),
      masker_(options.common.vocabulary, MaskingRule::kT5, options.common.mask_prob),
      vocabulary_(options.common.vocabulary),
      sequence_length_(options.common.sequence_length),
      decoder_sequence_length_(options.decoder_sequence_length),
      seed_(options.common.seed) {}

void T5Dataset::sample(std::int64_t i, T5Sample& sample) const {
  const SentenceSpan span = sentences_.span(i);
  NumpyRandom random(seed_ + static_cast<std::uint32_t>(i));
  const std::int64_t available = sentences_.length(span.first, span.end);
  const std::int64_t kept = std::min(available, span.target);
  sample.truncated = kept < available;
  thread_local std::vector<std::int32_t> tokens;  // so that a step allocates nothing
  thread_local MaskedSpans masked;
  tokens.resize(static_cast<std::size_t>(kept));
  sentences_.read(span.first, span.end, 0, tokens);
  masker_.mask(tokens, span.target, random, masked);
  check_fits(i, masked);

  Filler encoder(sample.text_enc, sequence_length_, 0);
  Filler decoder(sample.text_dec, decoder_sequence_length_, 0);
  Filler labels(sample.labels, decoder_sequence_length_, -1);
  decoder.add(vocabulary_->bos);
  std::size_t at = 0;  // token of the sample
  const auto copy_to = [&](std::size_t end) {
    for (; at < end; ++at) encoder.add(tokens[at]);
  };
  for (std::size_t k = 0; k < masked.ends.size(); ++k) {
    const std::int32_t sentinel = vocabulary_->sentinels[k];
    const auto places = masked.span_of(masked.positions, k);
    copy_to(static_cast<std::size_t>(places.front()));
    encoder.add(sentinel);
    at = static_cast<std::size_t>(places.back()) + 1;
    decoder.add(sentinel);
    labels.add(sentinel);
    for (const std::int32_t label : masked.span_of(masked.labels, k)) {
      decoder.add(label);
      labels.add(label);
    }
  }
  copy_to(tokens.size());
  labels.add(vocabulary_->eos);
  sample.encoder_tokens = encoder.filled();
  sample.decoder_tokens = decoder.filled();
  sample.loss_mask.assign(sample.labels.size(), 0);
  std::fill_n(sample.loss_mask.begin(), sample.decoder_tokens, 1);
}

void T5Dataset::check_fits(std::int64_t i, const MaskedSpans& masked) const {
  if (masked.ends.size() > vocabulary_->sentinels.size()) {
    throw DataError(
        "{} has {} masked spans, and the tokenizer {} sentinels: give a larger "
        "--vocab-extra-ids, or a smaller --mask-prob",
        sentences_.text_of(i), masked.ends.size(), vocabulary_->sentinels.size());
  }
  const auto needed = static_cast<std::int64_t>(1 + masked.ends.size() + masked.positions.size());
  if (needed > decoder_sequence_length_) {
    throw DataError(
        "{} gives the decoder {} tokens, more than --decoder-seq-length {}: give a "
        "larger one, or a smaller --mask-prob",
        sentences_.text_of(i), needed, decoder_sequence_length_);
  }
}

T5Samples::T5Samples(std::shared_ptr<const T5Dataset> dataset)
    : dataset_(std::move(dataset)),
      schema_(t5_batch_schema(dataset_->sequence_length(), dataset_->decoder_sequence_length())) {}

void T5Samples::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  thread_local T5Sample t5;  // so that a step allocates nothing
  dataset_->sample(index, t5);
  const auto column = [&](std::string_view name) {
    return sample.column<std::int32_t>(schema_.index(name));
  };
  std::ranges::copy(t5.text_enc, column("tokens").begin());
  fill_coordinates(column("position"), column("position_ids"), column("document"),
                   t5.encoder_tokens);
  std::ranges::copy(t5.text_dec, column("decoder_tokens").begin());
  std::ranges::copy(t5.labels, column("labels").begin());
  fill_coordinates(column("decoder_position"), column("decoder_position_ids"),
                   column("decoder_document"), t5.decoder_tokens);
  const auto loss_mask = sample.column<float>(schema_.index("loss_mask"));
  std::ranges::transform(t5.loss_mask, loss_mask.begin(),
                         [](std::int32_t counted) { return static_cast<float>(counted); });
  counts[0] = static_cast<double>(t5.decoder_tokens);
}

}  // namespace phalanx
