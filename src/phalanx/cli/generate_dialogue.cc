// generate --interactive: a line of the input is a prompt, and what was said before it stays
// in the model's memory.

#include <iterator>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/dialogue.h"
#include "phalanx/cli/dialogue_lines.h"
#include "phalanx/cli/generate_parts.h"

namespace phalanx {
namespace {

constexpr std::string_view kSlashWords =
    "/reset or an empty line forgets what was said, /quit or /exit ends";

class TextDialogue final : public Dialogue {
 public:
  TextDialogue(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
               SequenceModel& model)
      : Dialogue(io, options, trained, model, end_tokens(options, trained)) {}

  // False: a signal or the line asks to leave.
  bool hear(const std::string& line) {
    if (is_leaving(line)) return false;
    if (is_reset(line)) {
      tokens().clear();
      model().truncate(0, 0);
      return true;
    }
    if (is_slash_word(line)) {
      log_warning("{} is no command: {}; a prompt may begin with a blank", line, kSlashWords);
      return true;
    }
    // Lines and answers are printed below each other.
    const auto fresh =
        tokenizer().encode(tokens().empty() ? line : "\n" + line, first_only(options().encoding));
    if (fresh.empty()) return true;
    const std::int64_t length = std::ssize(tokens()) + std::ssize(fresh);
    if (length > model().capacity()) {
      log_warning("{} tokens with this line, and {} can be remembered: /reset forgets them", length,
                  model().capacity());
      return true;
    }
    tokens().insert(tokens().end(), fresh.begin(), fresh.end());
    return answer().goes_on;
  }

 private:
  // Tokens that begin a text come only once.
  EncodeOptions first_only(EncodeOptions encoding) const {
    encoding.add_special = encoding.add_special && tokens().empty();
    return encoding;
  }
};

}  // namespace

int converse(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained) {
  const auto model = plan_dialogue(options, trained);
  if (options.plan) {
    print_plan(io, options, trained, *model);
    return 0;
  }
  load_dialogue(trained, *model);
  TextDialogue dialogue(io, options, trained, *model);
  hear_lines(io, kSlashWords, [&](const std::string& line) { return dialogue.hear(line); });
  log_info("{}", text_of(dialogue.rates()));
  return 0;
}

}  // namespace phalanx
