#include "phalanx/inference/generation.h"

#include <algorithm>
#include <iterator>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// A request that has begun. The model has not read its last token yet.
struct Running {
  std::size_t request = 0;
  int sequence = 0;
  std::vector<std::int32_t> tokens;
  std::int64_t made = 0;
};

class Generation {
 public:
  Generation(SequenceModel& model, std::span<const GenerationRequest> requests,
             GenerationListener& listener)
      : model_(model), requests_(requests), listener_(listener) {
    for (int sequence = model.sequences(); sequence-- > 0;) free_.push_back(sequence);
  }

  GenerationRates run() {
    while (next_ < requests_.size() || !running_.empty()) {
      while (next_ < requests_.size() && !free_.empty()) {
        if (!listener_.goes_on()) next_ = requests_.size();
        if (next_ < requests_.size()) begin(next_++);
      }
      if (!running_.empty()) step();
    }
    return rates_;
  }

 private:
  void begin(std::size_t request) {
    const GenerationRequest& asked = requests_[request];
    Running running{
        .request = request, .sequence = free_.back(), .tokens = asked.prompt, .made = 0};
    if (requests_.size() > 1) model_.truncate(running.sequence, 0);
    const std::int64_t known = model_.length(running.sequence);
    PHALANX_CHECK(known < std::ssize(asked.prompt), "a prompt of {} tokens, of which {} are known",
                  asked.prompt.size(), known);
    if (asked.most == 0) return listener_.on_end(request);
    std::vector<float> logits;
    {
      const Stopwatch watch(rates_.prompt_seconds);
      logits = model_.read(running.sequence,
                           std::span(asked.prompt).subspan(static_cast<std::size_t>(known)));
    }
    rates_.prompt_tokens += std::ssize(asked.prompt) - known;
    if (!choose(running, logits)) return listener_.on_end(request);
    free_.pop_back();
    running_.push_back(std::move(running));
  }

  // Whether the request goes on after the token.
  bool choose(Running& running, std::span<const float> logits) {
    const GenerationRequest& asked = requests_[running.request];
    const std::int32_t token =
        sample_token(logits, asked.sampling, running.tokens.size(), running.tokens);
    running.tokens.push_back(token);
    ++running.made;
    return listener_.on_token(running.request, token) && running.made < asked.most &&
           model_.length(running.sequence) < model_.capacity();
  }

  void step() {
    const Stopwatch watch(rates_.decode_seconds);
    std::vector<SequenceModel::Next> next;
    for (const Running& running : running_) {
      next.push_back({.sequence = running.sequence, .token = running.tokens.back()});
    }
    const std::vector<float> logits = model_.step(next);
    rates_.decoded_tokens += std::ssize(next);
    const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
    std::vector<Running> still;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const auto own = std::span(logits).subspan(i * vocabulary, vocabulary);
      if (choose(running_[i], own)) {
        still.push_back(std::move(running_[i]));
      } else {
        free_.push_back(running_[i].sequence);
        listener_.on_end(running_[i].request);
      }
    }
    running_ = std::move(still);
  }

  SequenceModel& model_;
  std::span<const GenerationRequest> requests_;
  GenerationListener& listener_;
  std::size_t next_ = 0;
  std::vector<int> free_;
  std::vector<Running> running_;
  GenerationRates rates_;
};

}  // namespace

GenerationRates& GenerationRates::operator+=(const GenerationRates& other) {
  prompt_tokens += other.prompt_tokens;
  prompt_seconds += other.prompt_seconds;
  decoded_tokens += other.decoded_tokens;
  decode_seconds += other.decode_seconds;
  return *this;
}

GenerationRates generate(SequenceModel& model, std::span<const GenerationRequest> requests,
                         GenerationListener& listener) {
  return Generation(model, requests, listener).run();
}

}  // namespace phalanx
