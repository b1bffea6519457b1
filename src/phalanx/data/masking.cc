#include "phalanx/data/masking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr int kBertWords = 3;  // the most in a run
constexpr int kT5Words = 10;
constexpr double kT5Stop = 0.2;
constexpr double kMaskShare = 0.8;  // of BERT's masked tokens become [MASK];
constexpr double kKeptShare = 0.5;  // of the others, these stay

// Of 1, 2, ... words with probabilities as 1/1, 1/2, ..., added up as NumPy does: normalized twice,
// once by Megatron and once in choice().
std::vector<double> cumulative_shares(int words) {
  std::vector<double> shares(static_cast<std::size_t>(words));
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = 1.0 / static_cast<double>(i + 1);
  for (int pass = 0; pass < 2; ++pass) {
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= sum;
  }
  std::partial_sum(shares.begin(), shares.end(), shares.begin());
  const double last = shares.back();
  for (double& share : shares) share /= last;
  return shares;
}

// [CLS] and [SEP] belong to no word. A piece that continues a word belongs to the last word before
// it, even if a [SEP] is between them.
void find_words(std::span<const std::int32_t> tokens, const MaskingVocabulary& vocabulary,
                MaskedSpans::Work& work) {
  work.pieces.clear();
  work.words.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t id = tokens[i];
    if (id == vocabulary.cls || id == vocabulary.sep) continue;
    const bool goes_on = vocabulary.continues[static_cast<std::size_t>(id)] != 0;
    if (!goes_on || work.words.empty()) {
      work.words.push_back(static_cast<std::int32_t>(work.pieces.size()));
    }
    work.pieces.push_back(static_cast<std::int32_t>(i));
  }
  work.words.push_back(static_cast<std::int32_t>(work.pieces.size()));
}

}  // namespace

Masker::Masker(std::shared_ptr<const MaskingVocabulary> vocabulary, MaskingRule rule,
               double probability)
    : vocabulary_(std::move(vocabulary)), rule_(rule), probability_(probability) {
  if (rule_ == MaskingRule::kBert) cumulative_ = cumulative_shares(kBertWords);
}

std::int32_t Masker::draw_words(NumpyRandom& random) const {
  if (rule_ == MaskingRule::kBert) return static_cast<std::int32_t>(random.choice(cumulative_)) + 1;
  return static_cast<std::int32_t>(std::min<std::int64_t>(random.geometric(kT5Stop), kT5Words));
}

void Masker::replace(std::span<std::int32_t> tokens, MaskedSpans::Work::Run run,
                     NumpyRandom& random, const MaskedSpans::Work& work) const {
  for (std::int32_t k = run.begin; k < run.end; ++k) {
    const std::int32_t place = work.pieces[static_cast<std::size_t>(k)];
    std::int32_t& token = tokens[static_cast<std::size_t>(place)];
    if (rule_ == MaskingRule::kT5 || random.random_sample() < kMaskShare) {
      token = vocabulary_->mask;
    } else if (random.random_sample() >= kKeptShare) {
      token = static_cast<std::int32_t>(random.randint(0, vocabulary_->size));
    }
  }
}

void Masker::mask(std::span<std::int32_t> tokens, std::int64_t target, NumpyRandom& random,
                  MaskedSpans& masked) const {
  MaskedSpans::Work& work = masked.work;
  find_words(tokens, *vocabulary_, work);
  const auto words = static_cast<std::int32_t>(work.words.size()) - 1;
  const double limit =
      std::min(probability_ * static_cast<double>(target),
               std::max(1.0, std::nearbyint(static_cast<double>(tokens.size()) * probability_)));
  work.order.resize(static_cast<std::size_t>(words));
  std::iota(work.order.begin(), work.order.end(), 0);
  random.shuffle(std::span(work.order));
  work.is_masked.assign(work.pieces.size(), 0);
  work.runs.clear();
  std::vector<std::int32_t>& labels = masked.labels;
  std::int32_t count = 0;
  // Where a run of words ends; near the end there are fewer.
  const auto end_of = [&](std::int32_t word, std::int32_t length) {
    return work.words[static_cast<std::size_t>(std::min(word + length, words))];
  };
  // In the order of pieces, until the spans are sorted.
  labels.resize(work.pieces.size());
  for (std::size_t k = 0; k < labels.size(); ++k) {
    labels[k] = tokens[static_cast<std::size_t>(work.pieces[k])];
  }
  for (const std::int32_t word : work.order) {
    if (static_cast<double>(count) >= limit) break;
    std::int32_t length = draw_words(random);
    MaskedSpans::Work::Run run{.begin = work.words[static_cast<std::size_t>(word)],
                               .end = end_of(word, length)};
    const auto fits = [&] { return static_cast<double>(count + run.end - run.begin) <= limit; };
    while (!fits() && length > 1) run.end = end_of(word, --length);
    if (!fits()) continue;
    const auto first = work.is_masked.begin() + run.begin;
    const auto last = work.is_masked.begin() + run.end;
    // Only here, because the draws for it have been made.
    if (std::find(first, last, 1) != last) continue;
    std::fill(first, last, 1);
    replace(tokens, run, random, work);
    work.runs.push_back(run);
    count += run.end - run.begin;
  }
  // Megatron draws this for a mode that its command line does not reach.
  random.shuffle(std::span(work.order));

  std::ranges::sort(work.runs, {}, &MaskedSpans::Work::Run::begin);
  masked.positions.clear();
  masked.ends.clear();
  std::size_t at = 0;
  for (const auto& run : work.runs) {
    for (std::int32_t k = run.begin; k < run.end; ++k) {
      masked.positions.push_back(work.pieces[static_cast<std::size_t>(k)]);
      labels[at++] = labels[static_cast<std::size_t>(k)];  // never to a later place
    }
    masked.ends.push_back(static_cast<std::int32_t>(masked.positions.size()));
  }
  labels.resize(at);
}

}  // namespace phalanx
