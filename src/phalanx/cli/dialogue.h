#pragma once
// What the two dialogues of `generate --interactive` do alike: they answer, and show each answer as
// it is generated.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/cli/generate.h"
#include "phalanx/cli/generate_parts.h"
#include "phalanx/inference/cached_model.h"
#include "phalanx/inference/generation.h"
#include "phalanx/tasks/answer_text.h"

namespace phalanx {

class Dialogue : public GenerationListener {
 public:
  const GenerationRates& rates() const { return rates_; }

  bool on_token(std::size_t request, std::int32_t token) override;
  void on_end(std::size_t request) override;

 protected:
  // An answer ends with any token of `ends`.
  Dialogue(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
           SequenceModel& model, std::vector<std::int32_t> ends);

  struct Said {
    std::string text;
    bool goes_on = true;  // false: a signal asks to leave
  };
  // Answers what tokens() hold, and appends the answer's tokens to them.
  Said answer();

  const GenerateOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  SequenceModel& model() { return model_; }
  // The model has read these, perhaps without the last.
  std::vector<std::int32_t>& tokens() { return tokens_; }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  CommandIo& io_;
  const GenerateOptions& options_;
  const Tokenizer& tokenizer_;
  SequenceModel& model_;
  std::vector<std::int32_t> ends_;
  std::vector<std::int32_t> tokens_;
  std::uint64_t answers_ = 0;
  GenerationRates rates_;
  const StopRequests* signals_ = nullptr;
  AnswerText* text_ = nullptr;
};

}  // namespace phalanx
