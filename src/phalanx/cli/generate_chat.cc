// generate --interactive --chat: a line of the input is what a user says, and the conversation so
// far is rendered anew for each answer. What its tokens have in common with those before is not
// read again.

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/dialogue.h"
#include "phalanx/cli/dialogue_lines.h"
#include "phalanx/cli/generate_parts.h"
#include "phalanx/cli/generate_prompts.h"

namespace phalanx {
namespace {

constexpr std::string_view kSlashWords =
    "/reset or an empty line forgets what was said, /system TEXT sets the system message, /quit or "
    "/exit ends";
constexpr std::string_view kSystem = "/system";

class ChatDialogue final : public Dialogue {
 public:
  ChatDialogue(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
               PromptEncoder encoder, SequenceModel& model)
      : Dialogue(io, options, trained, model, end_tokens(options, trained, end_of_turn(encoder))),
        encoder_(std::move(encoder)) {
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
      if (const auto prompt = next_prompt()) return answer_to(*prompt);
      messages_.pop_back();
    }
    return true;
  }

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
      } else if (std::ssize(ids) > model().capacity()) {
        log_warning("{} tokens with this line, and {} can be remembered: /reset forgets them",
                    ids.size(), model().capacity());
      } else {
        return ids;
      }
    } catch (const DataError& error) {
      log_warning("{}", error.what());
    }
    return std::nullopt;
  }

  bool answer_to(const std::vector<std::int32_t>& ids) {
    // At least the last token is read, for what follows it.
    const auto common = std::ranges::mismatch(tokens(), ids).in1 - tokens().begin();
    model().truncate(
        0, std::min({static_cast<std::int64_t>(common), model().length(0), std::ssize(ids) - 1}));
    tokens() = ids;
    Said said = answer();
    messages_.push_back({"assistant", std::move(said.text)});
    return said.goes_on;
  }

  PromptEncoder encoder_;
  std::vector<ChatMessage> messages_;
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
