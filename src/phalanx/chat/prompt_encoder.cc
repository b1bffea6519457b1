#include "phalanx/chat/prompt_encoder.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "phalanx/chat/end_of_turn.h"
#include "phalanx/chat/message_keys.h"
#include "phalanx/chat/unused_keys.h"

namespace phalanx {
namespace {

// Characters that neither printing nor trimming changes, and that nobody types.
constexpr std::string_view kMarks = "\x7f\x01\x02\x03\x04\x05\x06\x07";

std::size_t character_length(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80U) {
    ++length;
  }
  return length;
}

std::string without(std::string text, char mark) {
  std::erase(text, mark);
  return text;
}

std::string with_marks(std::string text, const std::vector<std::size_t>& places, char mark) {
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    text.insert(text.begin() + static_cast<std::ptrdiff_t>(*place), mark);
  }
  return text;
}

// A character that no text has.
std::optional<char> free_mark(const std::vector<ChatMessage>& messages, std::string arguments) {
  std::set<char> used;
  const auto note = [&](std::string_view text) {
    std::ranges::copy_if(text, std::inserter(used, used.end()),
                         [](char c) { return kMarks.find(c) != std::string_view::npos; });
  };
  const TextVisitor noting{
      .change_text = [&](std::string_view, const std::string& text) { note(text); },
      .see_name = [&](std::string_view, std::string_view name) { note(name); }};
  for (ChatMessage message : messages) {
    note(message.content);
    visit_texts(message.fields, noting);
  }
  visit_texts(arguments, noting);
  const auto found = std::ranges::find_if(kMarks, [&](char mark) { return !used.contains(mark); });
  return found == kMarks.end() ? std::nullopt : std::optional(*found);
}

[[noreturn]] void reject(std::string_view written) {
  throw DataError(
      "a message has the text '{}', which is a special token where the template writes it, and "
      "the prompt does not show whose it is: write it another way",
      written);
}

}  // namespace

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, ChatTemplate chat_template,
                             ChatSettings settings)
    : tokenizer_(tokenizer),
      template_(std::move(chat_template)),
      settings_(std::move(settings)),
      places_(tokenizer),
      special_(tokenizer) {}

RenderedChat PromptEncoder::rendered(std::vector<ChatMessage> messages,
                                     const std::string& arguments,
                                     bool add_generation_prompt) const {
  return template_.render({.messages = std::move(messages),
                           .add_generation_prompt = add_generation_prompt,
                           .special_tokens = settings_.special_tokens,
                           .arguments = settings_.arguments,
                           .conversation_arguments = arguments,
                           .watches_keys = true,
                           .date = settings_.date});
}

PromptEncoder::Marks PromptEncoder::marks_of(std::string_view content) const {
  std::set<std::size_t> places;
  Marks marks;
  const std::size_t begin = std::min(content.find_first_not_of(kTrimmedBlanks), content.size());
  const std::size_t end = content.find_last_not_of(kTrimmedBlanks) + 1;
  for (const auto& entry : special_.all()) {
    const auto& special = entry.second;
    const auto add = [&](std::size_t place) {
      places.insert(place);
      if (marks.written.empty()) marks.written = special;
    };
    for (std::size_t at = content.find(special); at != std::string_view::npos;
         at = content.find(special, at + 1)) {
      const std::size_t length = character_length(special);
      if (length == special.size()) reject(special);  // nothing can be put into one character
      add(at + length);
    }
    // The other half of such a text may be the template's.
    for (std::size_t length = 1; length < special.size(); ++length) {
      const std::string_view text(special);
      if (content.substr(0, end).ends_with(text.substr(0, length))) add(end);
      if (content.substr(begin).starts_with(text.substr(length))) add(begin);
    }
  }
  marks.places.assign(places.begin(), places.end());
  return marks;
}

// A mark in a message's text keeps it from being a special token, wherever a template puts it. The
// marks must change nothing else: that is compared.
ChatPrompt PromptEncoder::encode(const std::vector<ChatMessage>& messages,
                                 const std::string& arguments) {
  RenderedChat plain = rendered(messages, arguments, true);
  ChatPrompt prompt{.text = std::move(plain.text), .ids = {}, .keys = template_keys(plain)};
  const std::optional<char> mark = free_mark(messages, arguments);
  std::string_view written;
  // What the model said may have to be seen by the template as it is: thoughts, which are cut out.
  for (const bool with_answers : {true, false}) {
    std::vector<ChatMessage> marked = messages;
    std::string marked_arguments = arguments;
    written = {};
    const auto add_marks = [&](std::string_view, std::string& text) {
      const Marks marks = marks_of(text);
      if (marks.places.empty()) return;
      written = marks.written;
      if (!mark) reject(written);
      text = with_marks(std::move(text), marks.places, *mark);
    };
    const TextVisitor marking{.change_text = add_marks,
                              .see_name = [&](std::string_view, std::string_view name) {
                                if (special_.may_occur_in(name)) reject(name);
                              }};
    for (ChatMessage& message : marked) {
      if (!with_answers && message.role == "assistant") continue;
      add_marks({}, message.content);
      visit_texts(message.fields, marking);
    }
    visit_texts(marked_arguments, marking);
    if (written.empty()) {
      prompt.ids = tokenizer_.encode(prompt.text, {.parse_special = true});
      return prompt;
    }
    std::optional<std::string> text;
    try {
      text = rendered(std::move(marked), marked_arguments, true).text;
    } catch (const Error&) {
      continue;
    }
    if (without(*text, *mark) != prompt.text) continue;
    prompt.ids = encode_marked(*text, *mark, written);
    return prompt;
  }
  reject(written);
}

// Between special tokens, which are the template's, texts with marks are encoded anew without them.
std::vector<std::int32_t> PromptEncoder::encode_marked(const std::string& marked, char mark,
                                                       std::string_view written) {
  std::vector<std::int32_t> encoded;
  const auto ids = tokenizer_.encode(marked, {.parse_special = true});
  std::vector<TokenPlace> places;
  try {
    places = places_.of(marked, ids);
  } catch (const DataError&) {
    reject(written);
  }
  for (std::size_t first = 0; first < ids.size();) {
    std::size_t last = first;
    while (last < ids.size() && !special_.has(ids[last])) ++last;
    if (last == first) {
      encoded.push_back(ids[first++]);
      continue;
    }
    const std::vector<std::int32_t> run(ids.begin() + static_cast<std::ptrdiff_t>(first),
                                        ids.begin() + static_cast<std::ptrdiff_t>(last));
    const std::size_t begin = places[first].begin;
    std::string text = marked.substr(begin, places[last - 1].end - begin);
    const bool has_mark = text.find(mark) != std::string::npos;
    // Alone it must have the tokens that it has where it stands.
    if (has_mark && tokenizer_.encode(text) != run) reject(written);
    const auto plain = has_mark ? tokenizer_.encode(without(std::move(text), mark)) : run;
    encoded.insert(encoded.end(), plain.begin(), plain.end());
    first = last;
  }
  return encoded;
}

std::int32_t PromptEncoder::end_of_turn() const {
  return phalanx::end_of_turn(tokenizer_, template_, settings_);
}

}  // namespace phalanx
