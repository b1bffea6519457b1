// generate --interactive: a line of the input is a prompt, and what was said before it stays
// in the model's memory.

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/dialogue_lines.h"
#include "phalanx/cli/generate_parts.h"
#include "phalanx/tasks/answer_text.h"

namespace phalanx {
namespace {

constexpr std::string_view kSlashWords =
    "/reset or an empty line forgets what was said, /quit or /exit ends";

class Dialogue final : public GenerationListener {
 public:
  Dialogue(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
           SequenceModel& model)
      : io_(io),
        options_(options),
        tokenizer_(*trained.tokenizer),
        model_(model),
        ends_(end_tokens(options, trained)) {}

  // False: a signal or the line asks to leave.
  bool hear(const std::string& line) {
    if (is_leaving(line)) return false;
    if (is_reset(line)) {
      said_.clear();
      model_.truncate(0, 0);
      return true;
    }
    if (is_slash_word(line)) {
      log_warning("{} is no command: {}; a prompt may begin with a blank", line, kSlashWords);
      return true;
    }
    // Lines and answers are printed below each other.
    const auto fresh =
        tokenizer_.encode(said_.empty() ? line : "\n" + line, first_only(options_.encoding));
    if (fresh.empty()) return true;
    const std::int64_t length = std::ssize(said_) + std::ssize(fresh);
    if (length > model_.capacity()) {
      log_warning("{} tokens with this line, and {} can be remembered: /reset forgets them", length,
                  model_.capacity());
      return true;
    }
    said_.insert(said_.end(), fresh.begin(), fresh.end());
    return answer();
  }

  const GenerationRates& rates() const { return rates_; }

  bool on_token(std::size_t /*request*/, std::int32_t token) override {
    if (std::ranges::find(ends_, token) != ends_.end()) return false;
    said_.push_back(token);
    io_.write(text_->add(token));
    return !text_->is_stopped() && signals_->received() == 0;
  }
  void on_end(std::size_t /*request*/) override { io_.write(text_->finish() + "\n"); }

 private:
  // Tokens that begin a text come only once.
  EncodeOptions first_only(EncodeOptions encoding) const {
    encoding.add_special = encoding.add_special && said_.empty();
    return encoding;
  }

  bool answer() {
    const auto signals = io_.listen(kEndingAnswer);
    signals_ = signals.get();
    AnswerText text(tokenizer_, said_, options_.stops);
    text_ = &text;
    SamplingOptions sampling = options_.sampling;
    sampling.seed += answers_++;
    const GenerationRequest request{
        .prompt = said_, .most = options_.max_tokens, .sampling = sampling};
    rates_ += generate(model_, std::span(&request, 1), *this);
    return signals->received() == 0 || signals->received() == SIGINT;
  }

  CommandIo& io_;
  const GenerateOptions& options_;
  const Tokenizer& tokenizer_;
  SequenceModel& model_;
  std::vector<std::int32_t> ends_;
  std::vector<std::int32_t> said_;
  std::uint64_t answers_ = 0;
  GenerationRates rates_;
  const StopRequests* signals_ = nullptr;
  AnswerText* text_ = nullptr;
};

}  // namespace

int converse(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained) {
  const auto model = plan_dialogue(options, trained);
  if (options.plan) {
    print_plan(io, options, trained, *model);
    return 0;
  }
  load_dialogue(trained, *model);
  Dialogue dialogue(io, options, trained, *model);
  hear_lines(io, kSlashWords, [&](const std::string& line) { return dialogue.hear(line); });
  log_info("{}", text_of(dialogue.rates()));
  return 0;
}

}  // namespace phalanx
