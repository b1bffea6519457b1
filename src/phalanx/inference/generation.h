#pragma once
// Text from a model: it reads each prompt in one or a few passes, then generates token by token.
// Several prompts are continued together, so that they share the passes over the weights; the
// answer to one does not depend on the others.

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/inference/sampling.h"
#include "phalanx/inference/sequence_model.h"

namespace phalanx {

struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  std::int64_t most = 0;  // tokens of the answer; fewer where the model's capacity ends
  SamplingOptions sampling;
};

// The times of reading prompts and of decoding answers, which is one token at a time.
struct GenerationRates {
  std::int64_t prompt_tokens = 0;
  double prompt_seconds = 0.0;
  std::int64_t decoded_tokens = 0;
  double decode_seconds = 0.0;

  GenerationRates& operator+=(const GenerationRates& other);
};

// Adds the time from its construction to its destruction.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Gets the tokens of requests, by the number of the request.
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  // False: the token is the request's last.
  virtual bool on_token(std::size_t request, std::int32_t token) = 0;
  virtual void on_end(std::size_t /*request*/) {}
  // Called before a request begins; false: no further request begins.
  virtual bool goes_on() { return true; }
};

// Answers as many requests at a time as the model keeps sequences. The model forgets its earlier
// sequences, except for a single request: its sequence may already have the first positions of the
// prompt, and is kept.
GenerationRates generate(SequenceModel& model, std::span<const GenerationRequest> requests,
                         GenerationListener& listener);

}  // namespace phalanx
