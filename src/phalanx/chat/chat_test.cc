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

Conversation read_line(std::string_view line) {
  return ConversationReader("f", {.needs_answer = false}).read(line, 1);
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
  const auto place_in = [&](const Conversation& conversation) {
    return chat.place_of_special_token(conversation, special);
  };
  EXPECT_EQ(place_in(kConversation), std::nullopt);
  EXPECT_EQ(place_in({.messages = {{"system", "<|im_end"}, {"user", "a<|im_end|>b"}}}),
            "message 2");
  const auto with_fields = [](const char* fields) {
    return Conversation{.messages = {{"user", "a"}, {"user", "b", fields}}};
  };
  EXPECT_EQ(place_in(with_fields(R"({"role": null, "content": null, "n": "<|im_end"})")),
            std::nullopt);
  for (const char* value :
       {R"("a<|im_end|>")", R"([1, {"x": ["<|im_end|>"]}])", R"({"<|im_end|>": 1})"}) {
    EXPECT_EQ(place_in(with_fields(
                  fmt::format(R"({{"role": null, "content": null, "n": {}}})", value).c_str())),
              "message 2: \"n\"");
  }
  EXPECT_EQ(place_in({.messages = {{"user", "a"}}, .arguments = R"({"x": "</s>"})"}),
            "\"x\" of chat_template_kwargs");
}

// Keys that a message has beside role and content are the template's to read.
TEST(ChatEncoder, TemplatesReadTheWholeMessage) {
  const auto tokenizer = byte_tokenizer();
  const auto text = [&](std::string_view source, std::string_view line) {
    return encoder(tokenizer, source).encode(read_line(line)).text;
  };
  constexpr std::string_view kThought =
      "{% for m in messages %}{{ m.role }}{{ '(' + m.name + ')' if m.name }}:"
      "{% if m.thought is string %}<{{ m.thought }}>{% endif %}{{ m.content }};{% endfor %}";
  EXPECT_EQ(text(kThought, R"({"messages": [{"role": "user", "name": "Ann", "content": "2+2?"},
                 {"content": "4", "thought": "é \"", "role": "assistant"}]})"),
            "user(Ann):2+2?;assistant:<é \">4;");
  EXPECT_EQ(text(kThought, R"({"conversations": [{"from": "human", "value": "a", "name": "Bo"},
                 {"from": "gpt", "value": "b", "thought": "t"}]})"),
            "user(Bo):a;assistant:<t>b;");
  EXPECT_EQ(text(kThought, R"({"prompt": [{"role": "user", "content": "a", "thought": "x"}],
                 "completion": [{"role": "assistant", "content": "b", "name": "C"}]})"),
            "user:<x>a;assistant(C):b;");
  // As Python has the dict: order and types. What is null is not there.
  EXPECT_EQ(text("{% for m in messages %}{{ m | tojson }}{{ m.n is defined }}{% endfor %}",
                 R"({"messages": [{"x": [1, 2.0, true, {"k": null}], "content": "a", "n": null,
                     "role": "user", "tool_calls": []}, {"role": "assistant", "content": "b"}]})"),
            R"({"x": [1, 2.0, true, {"k": null}], "content": "a", "role": "user"}False)"
            R"({"role": "assistant", "content": "b"}False)");
}

TEST(ChatEncoder, TellsWhichKeysATemplateReads) {
  const auto tokenizer = byte_tokenizer();
  const auto uses = [&](std::string_view source, std::string_view line,
                        ChatLoss loss = ChatLoss::kAssistant) {
    std::string all;
    for (const KeyUse& key : encoder(tokenizer, source, loss).encode(read_line(line)).keys) {
      all += (key.is_read ? "+" : "-") + key.name + ";";
    }
    return all;
  };
  constexpr std::string_view kLine =
      R"({"messages": [{"role": "user", "content": "a", "name": "n", "date": ""},
          {"role": "assistant", "content": "b", "score": 0, "name": "n", "weight": 1}]})";
  const auto of = [&](std::string_view source) { return uses(source, kLine); };
  EXPECT_EQ(of("{{ messages[0].role }}"),
            "-\"name\" of messages;-\"score\" of messages;-\"name\" of messages;");
  for (const char* reads_name : {"{{ messages[0].name }}", "{{ messages[0]['name'] }}",
                                 "{{ messages[0].get('name') }}", "{{ 'name' in messages[0] }}"}) {
    EXPECT_EQ(of(reads_name),
              "+\"name\" of messages;-\"score\" of messages;-\"name\" of messages;");
  }
  for (const char* reads_all :
       {"{{ messages[1] }}", "{{ messages[1] | tojson }}", "{{ messages[1].items() | list }}",
        "{% for k in messages[1] %}{{ k }}{% endfor %}", "{{ messages[1] | length }}",
        "{{ messages[1] == messages[0] }}", "{{ dict(messages[1]).x }}",
        "{{ messages[1] | dictsort }}", "{{ messages[1].values() | list }}"}) {
    EXPECT_THAT(of(reads_all), HasSubstr("+\"score\" of messages;+\"name\" of messages;"))
        << reads_all;
  }
  EXPECT_EQ(uses(kPlainChatMl, R"({"id": 7, "source": "", "text": "a", "messages": [
                     {"role": "user", "content": "a", "train": true},
                     {"role": "assistant", "content": "b", "train": true}]})"),
            "-\"id\";-\"text\";-\"train\" of messages that are not the assistant's;");
  EXPECT_EQ(uses("{{ x }}{% set y = 1 %}{{ y }}",
                 R"({"messages": [], "chat_template_kwargs": {"x": 1, "y": 2}})"),
            "+\"x\" of chat_template_kwargs;-\"y\" of chat_template_kwargs;");
}

TEST(ChatEncoder, ArgumentsOfALineReachTheTemplate) {
  const auto tokenizer = byte_tokenizer();
  const auto text = [&](const std::string& of_flag, std::string_view of_line) {
    ChatEncoder chat(tokenizer, ChatTemplate::parse("{{ x }}", "t.jinja"), {.arguments = of_flag});
    return chat.encode(read_line(fmt::format(R"({{"messages": [], {}}})", of_line))).text;
  };
  constexpr std::string_view kOfLine = R"("chat_template_kwargs": {"x": [1]})";
  EXPECT_EQ(text("", kOfLine), "[1]");
  EXPECT_EQ(text(R"({"x": [1], "y": 2})", kOfLine), "[1]");
  EXPECT_EQ(text(R"({"x": 2})", R"("chat_template_kwargs": null)"), "2");
  EXPECT_THAT(error_of<ConfigError>([&] { text(R"({"x": 2})", kOfLine); }),
              HasSubstr("\"chat_template_kwargs\" has another \"x\" than --chat-template-args"));
}

TEST(ChatEncoder, RefusesValuesThatTemplatesDoNotHave) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_THAT(
      error_of<ConfigError>([&] {
        encoder(tokenizer, kChatMl)
            .encode(read_line(
                R"({"messages": [{"role": "user", "content": "a", "n": 18446744073709551615}]})"));
      }),
      HasSubstr("\"n\" of a message: 18446744073709551615 has more than 64 bits"));
}

// "weight": 0 and its like, with what a template marks and without.
TEST(ChatEncoder, AMessageMaySayThatItIsNotTrained) {
  const auto tokenizer = byte_tokenizer();
  const auto trained = [&](std::string_view source, std::string_view line,
                           ChatLoss loss = ChatLoss::kAssistant) {
    return runs(encoder(tokenizer, source, loss).encode(read_line(line)));
  };
  const auto line = [](std::string_view of_first, std::string_view of_second = "") {
    return fmt::format(R"({{"messages": [{{"role": "user", "content": "q"}},
        {{"role": "assistant", "content": "wrong"{}}}, {{"role": "user", "content": "no"}},
        {{"role": "assistant", "content": "right"{}}}]}})",
                       of_first, of_second);
  };
  for (const std::string_view source : {kChatMl, kPlainChatMl}) {
    const auto both = trained(source, line(""));
    ASSERT_EQ(both.size(), 2U);
    for (const char* key :
         {R"(, "weight": 0)", R"(, "weight": 0.0)", R"(, "train": false)", R"(, "train": 0)",
          R"(, "trainable": false)", R"(, "training": false)", R"(, "loss": false)",
          R"(, "loss_mask": 0)", R"(, "loss_scale": 0.0)", R"(, "loss_weight": 0)",
          R"(, "masked": true)", R"(, "weight": 0, "train": false)"}) {
      EXPECT_THAT(trained(source, line(key)), ElementsAre(both[1])) << key;
      EXPECT_THAT(trained(source, line("", key)), ElementsAre(both[0])) << key;
      EXPECT_THAT(trained(source, line(key, key)), IsEmpty()) << key;
    }
    for (const char* key : {R"(, "weight": 1)", R"(, "weight": null)", R"(, "train": true)",
                            R"(, "masked": false)", R"(, "train_detail": [])"}) {
      EXPECT_EQ(trained(source, line(key, key)), both) << key;
    }
    EXPECT_THAT(trained(source, line(R"(, "weight": 0)"), ChatLoss::kLast), ElementsAre(both[1]));
    EXPECT_THAT(trained(source, line("", R"(, "weight": 0)"), ChatLoss::kLast), IsEmpty());
    EXPECT_THAT(
        error_of<ConfigError>([&] { trained(source, line(R"(, "weight": 0)"), ChatLoss::kAll); }),
        HasSubstr("message 2 has a \"weight\" that says it is not trained, and --sft-loss "
                  "all trains everything"));
  }
  // A system message of the line moves the numbers.
  const std::string with_system = R"({"system": "S", )" + line(R"(, "weight": 0)").substr(1);
  EXPECT_EQ(trained(kChatMl, with_system).size(), 1U);
  EXPECT_EQ(trained(kChatMl, with_system)[0].first, trained(kChatMl, line(""))[1].first + 11);
  for (const char* whole : {R"({"weight": 0, )", R"({"train": false, )"}) {
    EXPECT_THAT(trained(kPlainChatMl, whole + line("").substr(1)), IsEmpty());
    EXPECT_THAT(trained(kPlainChatMl, std::string(whole) + R"("text": "abc"})"), IsEmpty());
    EXPECT_THAT(trained(kPlainChatMl, std::string(whole) + R"("prompt": "a", "completion": "b"})"),
                IsEmpty());
  }
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

TEST(TemplateFile, DaysAreWrittenInFull) {
  EXPECT_EQ(template_day("2026-02-03"), std::chrono::year(2026) / 2 / 3);
  for (const char* text : {"2026-2-3", "2026-02-30", "today", ""}) {
    EXPECT_THROW(template_day(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace phalanx
