#include "phalanx/inference/beam_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr int kNoSequence = -1;

struct Beam {
  std::vector<std::int32_t> tokens;  // behind the prompt
  double score = 0.0;                // the sum of log probabilities
  int sequence = kNoSequence;
  std::vector<float> log_probabilities;  // of the next token
};

// A beam with one more token.
struct Candidate {
  std::size_t beam = 0;
  std::int32_t token = 0;
  double score = 0.0;
};

std::vector<float> log_softmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double all = largest + std::log(sum);
  std::vector<float> result;
  result.reserve(logits.size());
  for (const float logit : logits) result.push_back(static_cast<float>(logit - all));
  return result;
}

class Search {
 public:
  Search(SequenceModel& model, std::span<const std::int32_t> prompt, const BeamOptions& options,
         GenerationRates& rates)
      : model_(model), prompt_(prompt), options_(options), rates_(rates) {
    PHALANX_CHECK(options.beams > 0 && options.beams <= model.sequences(), "{} beams of {}",
                  options.beams, model.sequences());
  }

  BeamAnswer run(std::int64_t most, const std::function<bool()>& go_on) {
    read_prompt();
    const std::int64_t room = model_.capacity() - std::ssize(prompt_) + 1;
    const std::int64_t longest = std::min(most, room);
    for (std::int64_t length = 1; length <= longest && go_on(); ++length) {
      const std::vector<Candidate> best = best_candidates();
      keep_finished(best, length, length == longest);
      if (length == longest) break;
      go_on_with(best);
      if (is_decided(length)) break;
      step();
    }
    if (!finished_.empty()) return finished_.front();
    const Beam& beam = running_.front();
    return {.tokens = beam.tokens, .score = beam.score, .ended = false};
  }

 private:
  bool ends(std::int32_t token) const {
    return std::ranges::find(options_.end_tokens, token) != options_.end_tokens.end();
  }

  void read_prompt() {
    const Stopwatch watch(rates_.prompt_seconds);
    for (int sequence = 0; sequence < options_.beams; ++sequence) model_.truncate(sequence, 0);
    running_.push_back({.tokens = {}, .score = 0.0, .sequence = 0, .log_probabilities = {}});
    weigh(running_.front(), model_.read(0, prompt_));
    rates_.prompt_tokens += std::ssize(prompt_);
  }

  void weigh(Beam& beam, std::span<const float> logits) const {
    beam.log_probabilities = log_softmax(logits);
    std::vector<std::int32_t> seen(prompt_.begin(), prompt_.end());
    seen.insert(seen.end(), beam.tokens.begin(), beam.tokens.end());
    penalise_repetition(beam.log_probabilities, options_.repetition_penalty, seen);
  }

  // So many that there are enough beams to go on with, however many of them end.
  std::vector<Candidate> best_candidates() const {
    const std::int64_t kept =
        options_.beams * std::max<std::int64_t>(2, 1 + std::ssize(options_.end_tokens));
    std::vector<Candidate> all;
    for (std::size_t b = 0; b < running_.size(); ++b) {
      const Beam& beam = running_[b];
      for (const std::int32_t token : most_likely(beam.log_probabilities, kept)) {
        const double score = beam.log_probabilities[static_cast<std::size_t>(token)];
        all.push_back({.beam = b, .token = token, .score = beam.score + score});
      }
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &Candidate::score);
    if (std::ssize(all) > kept) all.resize(static_cast<std::size_t>(kept));
    return all;
  }

  // An ended continuation is an answer only if it is among the best, as many as there are beams.
  void keep_finished(std::span<const Candidate> best, std::int64_t length, bool last) {
    const std::size_t first = std::min(best.size(), static_cast<std::size_t>(options_.beams));
    for (const Candidate& candidate : best.first(first)) {
      const bool ended = ends(candidate.token);
      if (!ended && !last) continue;
      BeamAnswer answer{.tokens = running_[candidate.beam].tokens,
                        .score = candidate.score / divisor(length),
                        .ended = ended};
      answer.tokens.push_back(candidate.token);
      finished_.push_back(std::move(answer));
    }
    std::ranges::stable_sort(finished_, std::ranges::greater{}, &BeamAnswer::score);
    if (std::ssize(finished_) > options_.beams) {
      finished_.resize(static_cast<std::size_t>(options_.beams));
    }
  }

  void go_on_with(std::span<const Candidate> best) {
    std::vector<Beam> next;
    std::vector<bool> is_kept(static_cast<std::size_t>(options_.beams), false);
    std::vector<int> sources;
    for (const Candidate& candidate : best) {
      if (std::ssize(next) == options_.beams) break;
      if (ends(candidate.token)) continue;
      const Beam& parent = running_[candidate.beam];
      Beam child{.tokens = parent.tokens,
                 .score = candidate.score,
                 .sequence = kNoSequence,
                 .log_probabilities = {}};
      child.tokens.push_back(candidate.token);
      // The first continuation of a beam uses the beam's sequence, others use copies of it.
      if (!is_kept[static_cast<std::size_t>(parent.sequence)]) {
        is_kept[static_cast<std::size_t>(parent.sequence)] = true;
        child.sequence = parent.sequence;
      }
      sources.push_back(parent.sequence);
      next.push_back(std::move(child));
    }
    int free = 0;
    for (std::size_t i = 0; i < next.size(); ++i) {
      if (next[i].sequence != kNoSequence) continue;
      while (is_kept[static_cast<std::size_t>(free)]) ++free;
      model_.copy(sources[i], free);
      next[i].sequence = free++;
    }
    running_ = std::move(next);
  }

  // Whether no better answer can come.
  bool is_decided(std::int64_t length) const {
    if (running_.empty()) return true;
    if (std::ssize(finished_) < options_.beams) return false;
    return options_.early_stopping ||
           running_.front().score / divisor(length) <= finished_.back().score;
  }

  double divisor(std::int64_t length) const {
    return std::pow(static_cast<double>(length), options_.length_penalty);
  }

  void step() {
    const Stopwatch watch(rates_.decode_seconds);
    std::vector<SequenceModel::Next> next;
    for (const Beam& beam : running_) {
      next.push_back({.sequence = beam.sequence, .token = beam.tokens.back()});
    }
    const std::vector<float> logits = model_.step(next);
    const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
    for (std::size_t b = 0; b < running_.size(); ++b) {
      weigh(running_[b], std::span(logits).subspan(b * vocabulary, vocabulary));
    }
    rates_.decoded_tokens += std::ssize(next);
  }

  SequenceModel& model_;
  std::span<const std::int32_t> prompt_;
  const BeamOptions& options_;
  GenerationRates& rates_;
  std::vector<Beam> running_;  // the best one first
  std::vector<BeamAnswer> finished_;
};

}  // namespace

BeamAnswer beam_search(SequenceModel& model, std::span<const std::int32_t> prompt,
                       std::int64_t most, const BeamOptions& options, GenerationRates& rates,
                       const std::function<bool()>& go_on) {
  return Search(model, prompt, options, rates).run(most, go_on);
}

}  // namespace phalanx
