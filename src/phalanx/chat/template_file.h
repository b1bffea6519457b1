#pragma once
// Where the chat template of a tokenizer is, and what its folder says of special tokens.

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/chat_template/chat_template.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// The file beside a tokenizer, and the flag that names another.
inline constexpr std::string_view kChatTemplateName = "chat_template.jinja";
inline constexpr std::string_view kChatTemplateFlag = "--chat-template";

struct TemplateText {
  std::string text;
  std::string name;  // for messages: its file
};

// The text of a tokenizer's template. The first that there is: `file`, if one is named;
// chat_template.jinja in the tokenizer's folder; "chat_template" of its tokenizer_config.json, a
// text or the one called "default" of a list. `tokenizer_model` is a folder or a file in it, or
// empty. ConfigError where there is none: no format is guessed from the name of a model.
TemplateText find_template_text(const std::filesystem::path& file,
                                const std::filesystem::path& tokenizer_model);
// The same, read.
ChatTemplate find_chat_template(const std::filesystem::path& file,
                                const std::filesystem::path& tokenizer_model);

// (bos_token, <s>), ...: those of tokenizer_config.json, where the folder has one, as the library
// transformers gives them to templates; else those of the tokenizer.
std::vector<std::pair<std::string, std::string>> template_tokens(
    const Tokenizer& tokenizer, const std::filesystem::path& tokenizer_model);

// The day of --chat-template-date, which the ConfigError names that is thrown for any other text
// than YYYY-MM-DD.
std::chrono::year_month_day template_day(const std::string& text);

}  // namespace phalanx
