#pragma once
// A chat template, read once and rendered for any number of conversations. Immutable: any number of
// threads may share one.
//
// The language is the part of Jinja 2 that templates of published models use, in the environment of
// the library transformers: trim_blocks and lstrip_blocks are on, the last line end of the template
// counts for nothing, nothing is escaped, and values print as Python prints them. Not there, and an
// error: other tags, filters, tests, methods and functions than the parser knows, letters beyond
// ASCII in upper, lower, title and capitalize, and whole numbers beyond 64 bits.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {

namespace jinja {
struct Program;
}

// raise_exception(m) of a template: the conversation is not one that it takes.
class TemplateRaised : public DataError {
 public:
  TemplateRaised(std::string_view name, int line, std::string raised)
      : DataError("{}:{}: the template refuses the conversation: {}", name, line, raised),
        raised_(std::move(raised)) {}
  const std::string& raised() const { return raised_; }  // m

 private:
  std::string raised_;
};

struct ChatMessage {
  std::string role;
  std::string content;
  // All keys of the message in their order, as a JSON object; what it has for role and content
  // counts for nothing. Empty: the message has these two alone, in this order.
  std::string fields = {};
};

// What a template may ask for. tools and documents are none.
struct TemplateVariables {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = false;
  // (bos_token, <s>), ...: a name that is absent prints as nothing.
  std::vector<std::pair<std::string, std::string>> special_tokens = {};
  // A JSON object of further variables, which win over all others; empty: none.
  std::string arguments = {};
  // The same, of the conversation. ConfigError where both have a name, with other values.
  std::string conversation_arguments = {};
  // Whether RenderedChat says which keys and arguments the template has looked at.
  bool watches_keys = false;
  // The day for strftime_now; without one a template that asks for it is refused.
  std::optional<std::chrono::year_month_day> date = {};
};

// Bytes [begin, end) of a text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

struct KeyUse {
  std::string name;
  bool is_read = false;
};

struct RenderedChat {
  std::string text;
  // What stood in {% generation %}, in order, apart from each other, empty ones included.
  std::vector<TextSpan> generation = {};
  // The keys of messages except role, content and empty ones: whether the template has read them.
  std::vector<KeyUse> message_keys = {};
  std::vector<KeyUse> arguments = {};
  std::vector<KeyUse> conversation_arguments = {};
};

class ChatTemplate {
 public:
  // `name` stands in errors, as NAME:LINE. DataError for what is no Jinja, ConfigError for Jinja
  // that this program does not have.
  static ChatTemplate parse(std::string_view text, std::string name);

  // Whether the template has {% generation %}.
  bool marks_generation() const;
  const std::string& name() const;

  // TemplateRaised if the template raises; DataError for any other fault of the template or a limit
  // (10^6 steps, 100 calls in each other, 16 MiB of text); ConfigError for a missing date and for
  // arguments that are no JSON object.
  RenderedChat render(const TemplateVariables& variables) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Program> program);
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace phalanx
