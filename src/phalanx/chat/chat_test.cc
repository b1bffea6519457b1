#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "phalanx/base/test_support.h"
#include "phalanx/chat/chat_encoder.h"
#include "phalanx/chat/conversation.h"
#include "phalanx/chat/template_file.h"
#include "phalanx/chat/test_support.h"
#include "phalanx/chat/tokenizer_test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

std::string without_marks(std::string_view source) {
  std::string text(source);
  for (const std::string_view mark : {"{% generation %}", "{% endgeneration %}"}) {
    text.replace(text.find(mark), mark.size(), "");
  }
  return text;
}

// [first, last) of each run of trained tokens.
std::vector<std::pair<std::size_t, std::size_t>> runs(const EncodedChat& encoded) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  const auto& mask = encoded.mask.value();
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (i == 0 || mask[i - 1] == 0) found.emplace_back(i, i);
    found.back().second = i + 1;
  }
  return found;
}

ChatEncoder encoder(const Tokenizer& tokenizer, std::string_view source,
                    ChatLoss loss = ChatLoss::kAssistant) {
  return {tokenizer,
          ChatTemplate::parse(source, "t.jinja"),
          {.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, .loss = loss}};
}

// The ids and masks of transformers.
TEST(ChatEncoder, IdsAndMasksAreThoseOfTheLibrary) {
  const auto tokenizer = byte_tokenizer();
  const auto marked = encoder(tokenizer, kChatMl).encode(kConversation);
  const std::vector<std::int32_t> expected = {
      258, 115, 121, 115, 116, 101, 109, 10,  83,  259, 10,  258, 117, 115, 101, 114, 10,
      32,  104, 105, 32,  259, 10,  258, 97,  115, 115, 105, 115, 116, 97,  110, 116, 10,
      32,  121, 111, 10,  259, 10,  258, 117, 115, 101, 114, 10,  195, 169, 63,  259, 10,
      258, 97,  115, 115, 105, 115, 116, 97,  110, 116, 10,  111, 107, 259, 10};
  EXPECT_EQ(marked.ids, expected);
  EXPECT_THAT(runs(marked), ElementsAre(Pair(34, 39), Pair(62, 65)));
  const auto plain = encoder(tokenizer, kPlainChatMl).encode(kConversation);
  EXPECT_EQ(plain.ids, expected);
  EXPECT_THAT(runs(plain), ElementsAre(Pair(34, 40), Pair(62, 66)));

  for (const std::string& source : {std::string(kLlama3), without_marks(kLlama3)}) {
    const auto llama = encoder(tokenizer, source).encode(kConversation);
    EXPECT_EQ(llama.ids.size(), 68U);
    EXPECT_EQ(std::vector(llama.ids.begin(), llama.ids.begin() + 14),
              (std::vector<std::int32_t>{256, 260, 115, 121, 115, 116, 101, 109, 261, 10, 10, 83,
                                         262, 260}));
    EXPECT_THAT(runs(llama), ElementsAre(Pair(37, 40), Pair(65, 68)));
  }
}

TEST(ChatEncoder, ATokenAcrossTheBorderIsTrained) {
  const auto tokenizer = byte_tokenizer({":y", "oU"});
  const auto encoded =
      encoder(tokenizer,
              "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}{% else %}A:"
              "{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}")
          .encode({.messages = {{"assistant", "yo"}, {"user", "z"}, {"assistant", "é"}}});
  EXPECT_EQ(encoded.text, "A:yoU:zA:é");
  // A, :y, oU, :, z, A, : and the two bytes of é, all of which are trained.
  EXPECT_EQ(encoded.ids, (std::vector<std::int32_t>{65, 263, 264, 58, 122, 65, 58, 195, 169}));
  EXPECT_THAT(runs(encoded), ElementsAre(Pair(1, 3), Pair(7, 9)));
}

TEST(ChatEncoder, OtherLosses) {
  const auto tokenizer = byte_tokenizer();
  const auto trained = [&](std::string_view source, ChatLoss loss, const Conversation& what) {
    return runs(encoder(tokenizer, source, loss).encode(what));
  };
  EXPECT_THAT(trained(kChatMl, ChatLoss::kLast, kConversation), ElementsAre(Pair(62, 65)));
  EXPECT_THAT(trained(kPlainChatMl, ChatLoss::kLast, kConversation), ElementsAre(Pair(62, 66)));
  EXPECT_THAT(trained(kPlainChatMl, ChatLoss::kAll, kConversation), ElementsAre(Pair(0, 66)));
  Conversation split = kConversation;
  split.kind = ConversationKind::kCompletion;
  split.prompt_messages = 4;
  EXPECT_THAT(trained(kChatMl, ChatLoss::kCompletion, split), ElementsAre(Pair(62, 65)));
  EXPECT_THAT(trained(kPlainChatMl, ChatLoss::kAssistant, split), ElementsAre(Pair(62, 66)));
  const Conversation text = {
      .kind = ConversationKind::kCompletion, .text = "abcd", .trained_from = 3};
  EXPECT_THAT(trained(kChatMl, ChatLoss::kAssistant, text), ElementsAre(Pair(3, 4)));
}

TEST(ChatEncoder, SaysWhyPrefixesShowNothing) {
  const auto tokenizer = byte_tokenizer();
  // Only the last answer has a thought, as in Qwen 3.
  const auto encoded =
      encoder(tokenizer,
              "{% for m in messages %}{{ m.role[0] + ':' }}"
              "{% if loop.last and m.role == 'assistant' %}<t>{% endif %}{{ m.content + ';' }}"
              "{% endfor %}{% if add_generation_prompt %}a:{% endif %}")
          .encode(
              {.messages = {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}}});
  EXPECT_EQ(encoded.text, "u:a;a:b;u:c;a:<t>d;");
  EXPECT_FALSE(encoded.mask);
  EXPECT_THAT(encoded.why, HasSubstr("message 2: the whole conversation does not begin as the "
                                     "template writes its first 2 messages, at byte 6 '<t>b;' "
                                     "against 'b;u:c;a:<t>d;'; a template with {% generation %}"));
  const auto first = encoder(tokenizer, kPlainChatMl).encode({.messages = {{"assistant", "b"}}});
  EXPECT_EQ(first.why, "message 1 is an assistant's, with nothing before it");
  const auto shorter =
      encoder(tokenizer,
              "{% if messages|length == 1 %}{{ raise_exception('too short') }}{% endif %}")
          .encode({.messages = {{"user", "a"}, {"assistant", "b"}}});
  EXPECT_THAT(shorter.why,
              HasSubstr("message 2: the conversation up to there is refused: t.jinja:1"));
}

TEST(ChatEncoder, SeesSpecialTokensInMessages) {
  const auto tokenizer = byte_tokenizer();
  const SpecialTexts special(tokenizer);
  const auto chat = encoder(tokenizer, kChatMl);
  EXPECT_EQ(chat.message_with_special_token(kConversation, special), std::nullopt);
  EXPECT_EQ(chat.message_with_special_token(
                {.messages = {{"system", "<|im_end"}, {"user", "a<|im_end|>b"}}}, special),
            1);
}

TEST(Conversations, AreReadByTheirKeys) {
  const auto read = [](std::string_view line) { return ConversationReader("f").read(line, 1); };
  const auto contents = [&](std::string_view line) {
    std::string all;
    for (const auto& [role, content] : read(line).messages) all += role + "=" + content + ";";
    return all;
  };
  EXPECT_EQ(contents(R"({"messages": [{"role": "developer", "content": "d"},
                                      {"role": "assistant", "content": "b"}]})"),
            "developer=d;assistant=b;");
  EXPECT_EQ(contents(R"({"conversations": [{"from": "system", "value": "s"},
                      {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
            "system=s;user=a;assistant=b;");
  EXPECT_EQ(contents(R"({"instruction": "a", "input": "x", "output": "b"})"),
            "user=a\n\nx;assistant=b;");
  EXPECT_EQ(contents(R"({"question": "a", "context": "", "answer": "b"})"), "user=a;assistant=b;");
  EXPECT_EQ(contents(R"({"prompt": "a", "response": "b"})"), "user=a;assistant=b;");
  const auto split = read(R"({"prompt": [{"role": "user", "content": "a"}],
                              "completion": [{"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(split.prompt_messages, 1U);
  EXPECT_EQ(split.messages.size(), 2U);
  const auto joined = read(R"({"prompt": "ab", "completion": "c"})");
  EXPECT_EQ(joined.text, "abc");
  EXPECT_EQ(joined.trained_from, 2U);
  EXPECT_EQ(read(R"({"text": "abc"})").text, "abc");
}

TEST(Conversations, AreRefusedWithLineAndKey) {
  const auto refusal = [](std::string_view line) {
    ConversationReader reader("f.jsonl");
    return error_of([&] { reader.read(line, 7); });
  };
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"[", "it is no JSON object"},
      {R"({"a": 1})",
       "it has none of the keys messages, conversations, prompt with completion, "
       "instruction with output, text"},
      {R"({"messages": [{"role": "critic", "content": "a"}]})", "\"role\": unknown is 'critic'"},
      {R"({"messages": [{"content": "a"}]})", "\"role\" is missing"},
      {R"({"messages": [{"role": "user", "content": null}]})",
       "\"content\" is no text, which is not supported"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]})",
       "\"content\" is no text, which is not supported"},
      {R"({"messages": [{"role": "tool", "content": "a"}]})",
       "\"role\" is 'tool': messages of tools are not supported"},
      {R"({"messages": [{"role": "user", "content": "a", "tool_calls": []}]})",
       "\"tool_calls\" is not supported"},
      {R"({"messages": [], "tools": []})", "\"tools\" is not supported"},
      {R"({"conversations": [{"from": "narrator", "value": "a"}]})",
       "\"from\": unknown is 'narrator'"},
      {R"({"messages": [{"role": "user", "content": "a"}]})", "no message is an assistant's"},
      {R"({"messages": [{"role": "assistant", "content": ""}]})",
       "message 1: the assistant's text is empty"},
      {R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "a"}]})",
       "the last message is not an assistant's; --sft-drop-incomplete leaves such out"},
      {R"({"prompt": "a", "completion": []})",
       "\"prompt\" and \"completion\" are two texts or two lists of messages"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_EQ(refusal(line), fmt::format("f.jsonl:7: {}", message));
  }
  ConversationReader reader("f.jsonl");
  reader.read(R"({"text": "a"})", 1);
  EXPECT_EQ(error_of<DataError>([&] { reader.read(R"({"prompt": "a", "answer": "b"})", 2); }),
            "f.jsonl:2: it has instruction and output, and the lines before have text");
}

TEST(TemplateFile, IsTheFirstThatThereIs) {
  const TemporaryDirectory folder("chat");
  const auto text = [&](const std::string& file) {
    return find_chat_template(file, folder.path()).render({}).text;
  };
  EXPECT_THAT(error_of<ConfigError>([&] { text(""); }), HasSubstr("--chat-template FILE"));
  put_file(folder / "tokenizer_config.json", R"({"bos_token": {"content": "<b>"},
      "eos_token": "<e>", "pad_token": null,
      "chat_template": [{"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"}]})");
  EXPECT_THAT(error_of<ConfigError>([&] { text(""); }), HasSubstr("they are: tool_use, rag"));
  const auto tokenizer = byte_tokenizer();
  EXPECT_THAT(template_tokens(tokenizer, folder.path()),
              ElementsAre(Pair("bos_token", "<b>"), Pair("eos_token", "<e>")));
  EXPECT_THAT(template_tokens(tokenizer, ""), IsEmpty());
  put_file(folder / "tokenizer_config.json",
           R"({"chat_template": [{"name": "default", "template": "of the list"}]})");
  EXPECT_EQ(text(""), "of the list");
  put_file(folder / "tokenizer_config.json", R"({"chat_template": "of the config"})");
  EXPECT_EQ(text(""), "of the config");
  put_file(folder / "chat_template.jinja", "beside");
  EXPECT_EQ(text(""), "beside");
  put_file(folder / "named", "named");
  EXPECT_EQ(text(folder / "named"), "named");
}

TEST(Conversations, IncompleteOnesMayBeMarked) {
  ConversationReader reader("f", {.takes_incomplete = true});
  const auto is_incomplete = [&](const char* line) { return reader.read(line, 1).is_incomplete; };
  EXPECT_TRUE(is_incomplete(R"({"messages": [{"role": "user", "content": "a"}]})"));
  EXPECT_TRUE(is_incomplete(R"({"messages": [{"role": "assistant", "content": "a"},
                                            {"role": "user", "content": "b"}]})"));
  EXPECT_FALSE(is_incomplete(R"({"messages": [{"role": "assistant", "content": "a"}]})"));
}

TEST(TemplateFile, DaysAreWrittenInFull) {
  EXPECT_EQ(template_day("2026-02-03"), std::chrono::year(2026) / 2 / 3);
  for (const char* text : {"2026-2-3", "2026-02-30", "today", ""}) {
    EXPECT_THROW(template_day(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace phalanx
