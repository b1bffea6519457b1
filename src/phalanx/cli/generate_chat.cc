// generate --interactive --chat: a line of the input is what a user says, and the conversation so
// far is rendered anew for each answer. What its tokens have in common with those before is not
// read again.

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/dialogue_lines.h"
#include "phalanx/cli/generate_parts.h"
#include "phalanx/cli/generate_prompts.h"
#include "phalanx/tasks/answer_text.h"

namespace phalanx {
namespace {

constexpr std::string_view kSlashWords =
    "/reset or an empty line forgets what was said, /system TEXT sets the system message, /quit or "
    "/exit ends";
constexpr std::string_view kSystem = "/system";

class ChatDialogue final : public GenerationListener {
 public:
  ChatDialogue(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
               PromptEncoder encoder, SequenceModel& model)
      : io_(io),
        options_(options),
        tokenizer_(*trained.tokenizer),
        encoder_(std::move(encoder)),
        model_(model),
        ends_(end_tokens(options, trained, end_of_turn(encoder_))) {
    set_system(options.chat.system);
  }

  // False: a signal or the line asks to leave.
  bool hear(const std::string& line) {
    if (is_leaving(line)) return false;
    if (is_reset(line)) {
      std::erase_if(messages_, [](const ChatMessage& m) { return m.role != "system"; });
    } else if (line == kSystem || line.starts_with(std::string(kSystem) + ' ')) {
      set_system(line.substr(std::min(line.size(), kSystem.size() + 1)));
    } else if (is_slash_word(line)) {
      log_warning("{} is no command: {}; a message may begin with a blank", line, kSlashWords);
    } else {
      messages_.push_back({"user", line});
      if (const auto prompt = next_prompt()) return answer(*prompt);
      messages_.pop_back();
    }
    return true;
  }

  const GenerationRates& rates() const { return rates_; }

  bool on_token(std::size_t /*request*/, std::int32_t token) override {
    if (std::ranges::find(ends_, token) != ends_.end()) return false;
    known_.push_back(token);
    io_.write(text_->add(token));
    return !text_->is_stopped() && signals_->received() == 0;
  }
  void on_end(std::size_t /*request*/) override { io_.write(text_->finish() + "\n"); }

 private:
  // None where it is empty.
  void set_system(std::string text) {
    if (!messages_.empty() && messages_.front().role == "system") {
      messages_.erase(messages_.begin());
    }
    if (!text.empty()) messages_.insert(messages_.begin(), {"system", std::move(text)});
  }

  // The tokens of the conversation, or a warning why it cannot be answered.
  std::optional<std::vector<std::int32_t>> next_prompt() {
    try {
      std::vector<std::int32_t> ids = encoder_.encode(messages_).ids;
      if (ids.empty()) {
        log_warning("the chat template makes no text of the conversation");
      } else if (std::ssize(ids) > model_.capacity()) {
        log_warning("{} tokens with this line, and {} can be remembered: /reset forgets them",
                    ids.size(), model_.capacity());
      } else {
        return ids;
      }
    } catch (const DataError& error) {
      log_warning("{}", error.what());
    }
    return std::nullopt;
  }

  bool answer(const std::vector<std::int32_t>& ids) {
    // At least the last token is read, for what follows it.
    const auto common = std::ranges::mismatch(known_, ids).in1 - known_.begin();
    model_.truncate(
        0, std::min({static_cast<std::int64_t>(common), model_.length(0), std::ssize(ids) - 1}));
    known_ = ids;
    const auto signals = io_.listen(kEndingAnswer);
    signals_ = signals.get();
    AnswerText text(tokenizer_, ids, options_.stops);
    text_ = &text;
    SamplingOptions sampling = options_.sampling;
    sampling.seed += answers_++;
    const GenerationRequest request{
        .prompt = ids, .most = options_.max_tokens, .sampling = sampling};
    rates_ += generate(model_, std::span(&request, 1), *this);
    messages_.push_back({"assistant", text.text()});
    return signals->received() == 0 || signals->received() == SIGINT;
  }

  CommandIo& io_;
  const GenerateOptions& options_;
  const Tokenizer& tokenizer_;
  PromptEncoder encoder_;
  SequenceModel& model_;
  std::vector<std::int32_t> ends_;
  std::vector<ChatMessage> messages_;
  std::vector<std::int32_t> known_;  // the model has read these, perhaps without the last
  std::uint64_t answers_ = 0;
  GenerationRates rates_;
  const StopRequests* signals_ = nullptr;
  AnswerText* text_ = nullptr;
};

}  // namespace

int chat(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained) {
  PromptEncoder encoder = prompt_encoder(options.chat, trained);
  const auto model = plan_dialogue(options, trained);
  if (options.plan) {
    print_plan(io, options, trained, *model);
    return 0;
  }
  load_dialogue(trained, *model);
  ChatDialogue dialogue(io, options, trained, std::move(encoder), *model);
  hear_lines(io, kSlashWords, [&](const std::string& line) { return dialogue.hear(line); });
  log_info("{}", text_of(dialogue.rates()));
  return 0;
}

}  // namespace phalanx
