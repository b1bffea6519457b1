#pragma once
// What tests of conversations share: templates, the file of a tokenizer of bytes, a
// conversation.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/chat/conversation.h"
#include "phalanx/tokenizer/byte_symbols.h"

namespace phalanx {

inline constexpr std::string_view kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
inline constexpr std::string_view kPlainChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
inline constexpr std::string_view kLlama3 =
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
    "{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content | trim + '<|eot_id|>' }}{% endgeneration %}"
    "{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

// Byte-level BPE: the id of a byte is its number; then special tokens, then merged pairs.
inline std::string byte_tokenizer_json(const std::vector<std::string>& merges = {}) {
  std::string vocabulary;
  const auto add = [&](std::string symbols) {
    if (symbols == "\"" || symbols == "\\") symbols = "\\" + symbols;
    const auto id = static_cast<int>(std::count(vocabulary.begin(), vocabulary.end(), '\n'));
    vocabulary +=
        fmt::format("{}\"{}\": {}\n", id == 0 ? "" : ", ", symbols, id < 256 ? id : id + 7);
  };
  for (int byte = 0; byte < 256; ++byte) {
    add(symbols_from_bytes(std::string(1, static_cast<char>(byte))));
  }
  std::string rules;
  for (const std::string& merge : merges) {
    add(merge);
    rules += fmt::format("{}\"{} {}\"", rules.empty() ? "" : ", ", merge[0], merge[1]);
  }
  std::string special;
  int id = 256;
  for (const char* content : {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>",
                              "<|end_header_id|>", "<|eot_id|>"}) {
    special +=
        fmt::format(R"({}{{"id": {}, "content": "{}", "special": true, "normalized": false}})",
                    id == 256 ? "" : ", ", id, content);
    ++id;
  }
  return fmt::format(
      R"({{"version": "1.0", "added_tokens": [{}],
          "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}},
          "decoder": {{"type": "ByteLevel"}},
          "model": {{"type": "BPE", "vocab": {{{}}}, "merges": [{}]}}}})",
      special, vocabulary, rules);
}

inline const Conversation kConversation = {.messages = {{"system", "S"},
                                                        {"user", " hi "},
                                                        {"assistant", " yo\n"},
                                                        {"user", "é?"},
                                                        {"assistant", "ok"}}};

}  // namespace phalanx
