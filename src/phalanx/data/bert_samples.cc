#include "phalanx/data/bert_samples.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::int64_t kAround = 3;  // [CLS], and a [SEP] behind each part
constexpr double kExchanged = 0.5;
constexpr double kFrontCut = 0.5;

SentenceMappingOptions bert_mapping_options(const BertOptions& options,
                                            std::optional<std::int64_t> samples) {
  return {.samples = samples,
          .max_length = options.common.sequence_length - kAround,
          .short_seq_prob = options.common.short_seq_prob,
          .seed = options.common.seed,
          .min_sentences = options.binary_head ? 2 : 1,
          .poll = options.common.poll};
}

const BertOptions& checked_bert(const BertOptions& options) {
  check_bert_options(options);
  return options;
}

// Sentences, and which of their tokens are kept.
struct Part {
  std::int64_t first = 0;  // sentences
  std::int64_t end = 0;
  std::int64_t offset = 0;  // tokens
  std::int64_t tokens = 0;
};

// Cuts tokens off the longer part, at its front or its back, until both fit.
bool truncate(Part& a, Part& b, std::int64_t target, NumpyRandom& random) {
  if (a.tokens + b.tokens <= target) return false;
  while (a.tokens + b.tokens > target) {
    Part& longer = a.tokens > b.tokens ? a : b;
    if (random.random_sample() < kFrontCut) ++longer.offset;
    --longer.tokens;
  }
  return true;
}

}  // namespace

void check_bert_options(const BertOptions& options) {
  const MaskedOptions& common = options.common;
  PHALANX_CHECK(common.vocabulary != nullptr, "BERT without a vocabulary");
  const MaskingVocabulary& vocabulary = *common.vocabulary;
  check_masked_options(common, "BERT",
                       std::array<NeededToken, 4>{{{vocabulary.cls, "[CLS]"},
                                                   {vocabulary.sep, "[SEP]"},
                                                   {vocabulary.mask, "[MASK]"},
                                                   {vocabulary.pad, "[PAD]"}}});
  if (common.sequence_length < kAround + 2) {
    throw ConfigError("--seq-length {}: a sample of BERT has at least {} tokens",
                      common.sequence_length, kAround + 2);
  }
}

BertDataset::BertDataset(std::shared_ptr<const IndexedDataset> data, IndexRange documents,
                         std::optional<std::int64_t> samples, const BertOptions& options)
    : sentences_(std::move(data), documents, checked_bert(options).common.vocabulary->size,
                 bert_mapping_options(options, samples), options.common.cache),
      masker_(options.common.vocabulary, MaskingRule::kBert, options.common.mask_prob),
      vocabulary_(options.common.vocabulary),
      sequence_length_(options.common.sequence_length),
      seed_(options.common.seed),
      binary_head_(options.binary_head) {}

void BertDataset::sample(std::int64_t i, BertSample& sample) const {
  const SentenceSpan span = sentences_.span(i);
  NumpyRandom random(seed_ + static_cast<std::uint32_t>(i));
  // The order of draws is Megatron's: where to cut, whether to exchange, what to leave out, masks.
  const std::int64_t count = span.end - span.first;
  std::int64_t pivot = count;
  sample.is_random = false;
  if (binary_head_) {
    pivot = count >= 3 ? random.randint(1, count) : 1;
    sample.is_random = random.random_sample() < kExchanged;
  }
  const std::int64_t middle = span.first + pivot;
  Part a{.first = span.first, .end = middle, .tokens = sentences_.length(span.first, middle)};
  Part b{.first = middle, .end = span.end, .tokens = sentences_.length(middle, span.end)};
  if (sample.is_random) std::swap(a, b);
  sample.truncated = truncate(a, b, span.target, random);

  const auto s = static_cast<std::size_t>(sequence_length_);
  sample.text.assign(s, 0);
  sample.types.assign(s, 0);
  std::size_t filled = 0;
  const auto append = [&](const Part& part, std::int32_t type) {
    const auto tokens = static_cast<std::size_t>(part.tokens);
    sentences_.read(part.first, part.end, part.offset,
                    std::span(sample.text).subspan(filled, tokens));
    sample.text[filled + tokens] = vocabulary_->sep;
    std::fill_n(sample.types.begin() + static_cast<std::ptrdiff_t>(filled), tokens + 1, type);
    filled += tokens + 1;
  };
  sample.text[filled++] = vocabulary_->cls;
  append(a, 0);
  if (b.tokens > 0) append(b, 1);

  thread_local MaskedSpans masked;  // so that a step allocates nothing
  masker_.mask(std::span(sample.text).first(filled), span.target, random, masked);
  sample.labels.assign(s, -1);
  sample.loss_mask.assign(s, 0);
  sample.padding_mask.assign(s, 0);
  std::fill_n(sample.padding_mask.begin(), filled, 1);
  for (std::size_t k = 0; k < masked.positions.size(); ++k) {
    const auto place = static_cast<std::size_t>(masked.positions[k]);
    sample.labels[place] = masked.labels[k];
    sample.loss_mask[place] = 1;
  }
}

BertSamples::BertSamples(std::shared_ptr<const BertDataset> dataset)
    : dataset_(std::move(dataset)), schema_(bert_batch_schema(dataset_->sequence_length())) {}

void BertSamples::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  thread_local BertSample bert;  // so that a step allocates nothing
  dataset_->sample(index, bert);
  const auto column = [&](std::string_view name) {
    return sample.column<std::int32_t>(schema_.index(name));
  };
  std::ranges::copy(bert.text, column("tokens").begin());
  std::ranges::copy(bert.types, column("types").begin());
  std::ranges::copy(bert.labels, column("labels").begin());
  const auto loss_mask = sample.column<float>(schema_.index("loss_mask"));
  fill_coordinates(column("position"), column("position_ids"), column("document"),
                   std::ranges::count(bert.padding_mask, 1));
  double masked = 0.0;
  for (std::size_t row = 0; row < loss_mask.size(); ++row) {
    loss_mask[row] = static_cast<float>(bert.loss_mask[row]);
    masked += static_cast<double>(loss_mask[row]);
  }
  column("is_random")[0] = bert.is_random ? 1 : 0;
  counts[0] = masked;
  if (dataset_->binary_head()) counts[1] = 1.0;
}

}  // namespace phalanx
