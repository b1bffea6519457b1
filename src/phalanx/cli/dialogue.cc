#include "phalanx/cli/dialogue.h"

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>

#include "phalanx/cli/dialogue_lines.h"

namespace phalanx {

Dialogue::Dialogue(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
                   SequenceModel& model, std::vector<std::int32_t> ends)
    : io_(io),
      options_(options),
      tokenizer_(*trained.tokenizer),
      model_(model),
      ends_(std::move(ends)) {}

bool Dialogue::on_token(std::size_t /*request*/, std::int32_t token) {
  if (std::ranges::find(ends_, token) != ends_.end()) return false;
  tokens_.push_back(token);
  io_.write(text_->add(token));
  return !text_->is_stopped() && signals_->received() == 0;
}

void Dialogue::on_end(std::size_t /*request*/) { io_.write(text_->finish() + "\n"); }

Dialogue::Said Dialogue::answer() {
  const auto signals = io_.listen(kEndingAnswer);
  signals_ = signals.get();
  AnswerText text(tokenizer_, tokens_, options_.stops);
  text_ = &text;
  SamplingOptions sampling = options_.sampling;
  sampling.seed += answers_++;
  const GenerationRequest request{
      .prompt = tokens_, .most = options_.max_tokens, .sampling = sampling};
  rates_ += generate(model_, std::span(&request, 1), *this);
  return {.text = text.text(),
          .goes_on = signals->received() == 0 || signals->received() == SIGINT};
}

}  // namespace phalanx
