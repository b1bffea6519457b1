#pragma once
// Text from a model: each prompt in one pass, or a few, then a token at a time. Several prompts are
// continued together, so that they share the passes over the weights; what comes of one does not
// depend on the others.

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/inference/sampling.h"
#include "phalanx/inference/sequence_model.h"

namespace phalanx {

struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  std::int64_t most = 0;  // tokens that follow it; fewer where the model's capacity ends
  SamplingOptions sampling;
};

// How fast it went: prompts are read, and what follows is decoded a token at a time.
struct GenerationRates {
  std::int64_t prompt_tokens = 0;
  double prompt_seconds = 0.0;
  std::int64_t decoded_tokens = 0;
  double decode_seconds = 0.0;

  GenerationRates& operator+=(const GenerationRates& other);
};

// Adds the time from here to the end of its scope.
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

// Is told what happens to the requests, by their numbers.
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  // False: that token was the request's last.
  virtual bool on_token(std::size_t request, std::int32_t token) = 0;
  virtual void on_end(std::size_t /*request*/) {}
  // Before a request begins; false: none does any more.
  virtual bool goes_on() { return true; }
};

// As many requests at a time as the model keeps sequences. What the model remembers is forgotten,
// but for the sequence of a single request: the first positions of its prompt may be there already,
// and whatever it has then stays.
GenerationRates generate(SequenceModel& model, std::span<const GenerationRequest> requests,
                         GenerationListener& listener);

}  // namespace phalanx
