#include "phalanx/chat_template/chat_template.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

const std::vector<ChatMessage> kConversation = {
    {"system", "S"}, {"user", " hi "}, {"assistant", " yo\n"}, {"user", "é?"}, {"assistant", "ok"}};
const std::vector<ChatMessage> kFourTurns = {
    {"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}};

constexpr std::string_view kChatMl =
    "{% for message in messages %}\n"
    "{{ '<|im_start|>' + message.role + '\\n' }}\n"
    "{%- if message.role == 'assistant' %}\n"
    "{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}\n"
    "{%- else %}\n"
    "{{- message.content + '<|im_end|>' }}\n"
    "{%- endif %}\n"
    "{{ '\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\n";

constexpr std::string_view kMistral =
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ message['content'] + eos_token + ' ' }}{% endif %}{% endfor %}";

constexpr std::string_view kGemma =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
    "{% endfor %}";

TemplateVariables variables(std::vector<ChatMessage> messages) {
  return {.messages = std::move(messages),
          .special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
}

std::string rendered(std::string_view source, const std::vector<ChatMessage>& messages = {}) {
  return ChatTemplate::parse(source, "t.jinja").render(variables(messages)).text;
}

std::string error_of_source(ErrorCode code, std::string_view source) {
  return error_of(code, [&] { rendered(source); });
}

TEST(ChatTemplate, WritesConversationsAndSaysWhatIsGenerated) {
  const auto chat = ChatTemplate::parse(kChatMl, "t.jinja");
  EXPECT_TRUE(chat.marks_generation());
  auto given = variables(kConversation);
  const RenderedChat whole = chat.render(given);
  EXPECT_EQ(whole.text,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n hi <|im_end|>\n"
            "<|im_start|>assistant\n yo\n<|im_end|>\n<|im_start|>user\né?<|im_end|>\n"
            "<|im_start|>assistant\nok<|im_end|>\n");
  ASSERT_EQ(whole.generation.size(), 2U);
  const auto part = [&](TextSpan span) {
    return whole.text.substr(span.begin, span.end - span.begin);
  };
  EXPECT_EQ(part(whole.generation[0]), " yo\n<|im_end|>");
  EXPECT_EQ(part(whole.generation[1]), "ok<|im_end|>");
  given.add_generation_prompt = true;
  EXPECT_EQ(chat.render(given).text, whole.text + "<|im_start|>assistant\n");
}

TEST(ChatTemplate, WritesAsPublishedFamiliesDo) {
  EXPECT_EQ(rendered(kMistral, kFourTurns), "<s>[INST] a [/INST]b</s> [INST] c [/INST]d</s> ");
  EXPECT_EQ(rendered(kGemma, {{"user", "a"}, {"assistant", " b "}}),
            "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n");
  EXPECT_EQ(rendered("{% for m in messages %}{{ '<|start_header_id|>' + m.role + "
                     "'<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}",
                     {{"user", " hi "}, {"assistant", " yo\n"}}),
            "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nyo<|eot_id|>");
}

TEST(ChatTemplate, RaisesWhatTheTemplateRaises) {
  try {
    rendered("\n" + std::string(kGemma), kConversation);
    FAIL();
  } catch (const TemplateRaised& raised) {
    EXPECT_EQ(raised.raised(), "System role not supported");
    EXPECT_EQ(raised.code(), ErrorCode::kBadData);
    EXPECT_STREQ(raised.what(),
                 "t.jinja:2: the template refuses the conversation: System role not supported");
  }
}

TEST(ChatTemplate, TakesArguments) {
  auto given = variables({{"user", "a"}});
  given.arguments =
      R"({"enable_thinking": false, "z": {"b": 1, "a": [1.5, null]}, "bos_token": "X"})";
  const auto chat = ChatTemplate::parse(
      "{% if enable_thinking is false %}{{ z }}{{ z|tojson }}{{ bos_token }}{% endif %}", "t");
  EXPECT_EQ(chat.render(given).text, "{'b': 1, 'a': [1.5, None]}{\"b\": 1, \"a\": [1.5, null]}X");
  given.arguments = "[1]";
  EXPECT_EQ(error_of<ConfigError>([&] { chat.render(given); }),
            "--chat-template-args: it is no JSON object");
}

TEST(ChatTemplate, NeedsADateToWriteToday) {
  auto given = variables({});
  const auto chat = ChatTemplate::parse("\n{{ strftime_now('%d %b %Y') }}", "t");
  EXPECT_THAT(error_of<ConfigError>([&] { chat.render(given); }),
              HasSubstr("t:2: the template asks for today's date"));
  given.date =
      std::chrono::year_month_day(std::chrono::year(2025), std::chrono::March, std::chrono::day(4));
  EXPECT_EQ(chat.render(given).text, "\n04 Mar 2025");
}

TEST(ChatTemplate, RefusesWhatItDoesNotHaveByNameAndLine) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{% include 'a' %}", "the tag 'include' is not supported"},
      {"{% import 'a' as b %}", "the tag 'import' is not supported"},
      {"{% extends 'a' %}", "the tag 'extends' is not supported"},
      {"{% block a %}{% endblock %}", "the tag 'block' is not supported"},
      {"{% call f() %}{% endcall %}", "the tag 'call' is not supported"},
      {"{% do f() %}", "the tag 'do' is not supported"},
      {"{% raw %}{% endraw %}", "the tag 'raw' is not supported"},
      {"{% for x in y recursive %}{% endfor %}", "'recursive' of for is not supported"},
      {"{{ x|sort }}", "the filter 'sort' is not supported"},
      {"{{ x|map('sort') }}", "the filter 'sort' is not supported"},
      {"{% set x | sort %}{% endset %}", "the filter 'sort' is not supported"},
      {"{{ x is odd }}", "the test 'odd' is not supported"},
      {"{{ x|select('odd') }}", "the test 'odd' is not supported"},
      {"{{ x|selectattr('a', 'odd') }}", "the test 'odd' is not supported"},
      {"{{ x.format(1) }}", "the method 'format' is not supported"},
      {"{{ f(1) }}", "the function 'f' is not supported"},
      {"{{ x[0](1) }}", "only functions, macros and methods can be called"},
      {"{{ range(*x) }}", "* in a call is not supported"},
      {"{{ caller() }}", "the name 'caller' is not supported"},
      {"{{ cycler }}", "the name 'cycler' is not supported"},
      {"{% for x in y %}{{ loop.cycle(1) }}{% endfor %}", "loop.cycle is not supported"},
      {"{{ loop(1) }}", "loop() of recursive loops is not supported"},
      {"{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}",
       "generation in a macro, a block set or another generation is not supported"},
      {"{{ 0x1f }}", "a number like 0x is not supported"},
      {"{{ 99999999999999999999 }}", "99999999999999999999 has more than 64 bits"},
      {R"({{ '\N{DASH}' }})", "\\N in a text is not supported"},
  };
  for (const auto& [source, message] : cases) {
    const std::string text = fmt::format("a\n{{# b #}}\n{}", source);
    EXPECT_EQ(error_of<ConfigError>([&] { ChatTemplate::parse(text, "t.jinja"); }),
              fmt::format("t.jinja:3: {}", message));
  }
}

TEST(ChatTemplate, RefusesWhatIsNoJinja) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{{ 1", "a tag has no end, }}"},
      {"{# 1", "a comment has no end, #}"},
      {"{% if 1 %}", "if has no end"},
      {"{% for x in y %}{% endif %}", "endif closes nothing here"},
      {"{% generation %}", "generation has no end"},
      {"{{ 'a }}", "a text has no end, '"},
      {"{{ }}", "}} where an expression is expected"},
      {"{{ (1] }}", "']' where ')' is expected"},
      {"{{ 1 ? 2 }}", "'?' belongs to nothing here"},
      {"{{ 1 2 }}", "2 where }} is expected"},
      {"{% if %}{% endif %}", "%} where an expression is expected"},
      {"{% set 1 = 2 %}", "1 where a name is expected"},
      {"{% set none = 2 %}", "nothing can be assigned to 'none'"},
      {"{% for loop in x %}{% endfor %}", "nothing can be assigned to 'loop'"},
      {"{% break %}", "break outside of a for"},
      {"{% for x in y %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
       "break outside of a for"},
      {"{% macro m(a=1, b) %}{% endmacro %}",
       "the argument 'b' has no value, but one before it has"},
      {"{{ range(a=1, 2) }}", "an argument without a name behind one with a name"},
      {"{{ 1 is eq }}", "the test 'eq' takes one argument"},
      {R"({{ '\ud800' }})", "\\u in a text is followed by no number of a character"},
      {"\xff", "the template is not UTF-8"},
  };
  for (const auto& [source, message] : cases) {
    EXPECT_EQ(error_of<DataError>([&] { ChatTemplate::parse(source, "t.jinja"); }),
              fmt::format("t.jinja:1: {}", message));
  }
}

TEST(ChatTemplate, FaultsOfARenderingNameTheLine) {
  const std::pair<std::string_view, std::string_view> bad[] = {
      {"{{ x.y }}", "'x' is undefined"},
      {"{{ messages[0].z.y }}", "0 of a list is undefined"},
      {"{{ 'a' + 1 }}", "+ is not possible with a text and a whole number"},
      {"{{ 'a' + x }}", "'x' is undefined"},
      {"{{ 1 < 'a' }}", "a comparison is not possible with a whole number and a text"},
      {"{{ 1 // 0 }}", "division by 0"},
      {"{{ 1 in 'a' }}", "what is sought in a text is a whole number, and must be a text"},
      {"{{ [1]|tojson ~ x|tojson }}", "an undefined value is no JSON"},
      {"{{ 'a'.get('b') }}", "a text has no method 'get'"},
      {"{% set x.y = 1 %}", "'x' is no namespace, and its attribute cannot be set"},
      {"{% for a, b in [1] %}{% endfor %}", "a whole number has no items"},
      {"{% for a, b in ['abc'] %}{% endfor %}", "2 names for 3 values"},
      {"{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "the macro 'm' has no argument 'b'"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, a=1) }}", "the macro 'm' is given 'a' twice"},
      {"{{ 'abc'[::0] }}", "the step of a slice is 0"},
      {"{{ 'a'.split('') }}", "split with an empty separator"},
      {"{{ ([1]|select)|length }}", "a generator has no length"},
  };
  for (const auto& [source, message] : bad) {
    EXPECT_EQ(error_of_source(ErrorCode::kBadData, fmt::format("\n{}", source)),
              fmt::format("t.jinja:2: {}", message));
  }
  const std::pair<std::string_view, std::string_view> unsupported[] = {
      {"{{ 'é'|upper }}", "upper of a text beyond ASCII is not supported"},
      {"{{ 9223372036854775807 + 1 }}", "a number of more than 64 bits is not supported"},
      {"{{ 2 ** 64 }}", "a number of more than 64 bits is not supported"},
      {"{{ '%s' % 1 }}", "% with a text is not supported"},
      {"{{ range(3) }}", "a range, a view or a generator cannot be printed; |list makes a list"},
      {"{{ range }}", "a function cannot be printed"},
      {"{{ 'a'.strip }}", "a method cannot be printed"},
      {"{{ ('<'|safe) + '>' }}",
       "+ with a text behind |safe, whose other side Jinja would escape, is not supported; use ~"},
  };
  for (const auto& [source, message] : unsupported) {
    EXPECT_EQ(error_of_source(ErrorCode::kConfiguration, fmt::format("\n{}", source)),
              fmt::format("t.jinja:2: {}", message));
  }
}

TEST(ChatTemplate, EndsAtItsLimits) {
  const auto nested = [](std::string_view open, std::string_view inside, std::string_view close) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += open;
    text += inside;
    for (int i = 0; i < 200; ++i) text += close;
    return text;
  };
  // Without end, but for the limit of steps.
  EXPECT_THAT(error_of_source(ErrorCode::kBadData,
                              "{% for a in range(100000) %}{% for b in range(100000) %}"
                              "{% endfor %}{% endfor %}"),
              HasSubstr("the template "));
  EXPECT_EQ(error_of_source(ErrorCode::kBadData,
                            "{% set r = range(1000) %}{% for a in r %}{% for b in [1] * 1000 %}"
                            "{% if a == b %}{% endif %}{% endfor %}{% endfor %}"),
            "t.jinja:1: the template takes more than 1000000 steps");
  EXPECT_EQ(error_of_source(ErrorCode::kBadData, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
            "t.jinja:1: more than 100 calls of macros in each other");
  // Deep.
  EXPECT_EQ(error_of_source(ErrorCode::kConfiguration, "{{ " + nested("(", "1", ")") + " }}"),
            "t.jinja:1: expressions are nested more than 100 deep");
  EXPECT_EQ(error_of_source(ErrorCode::kConfiguration, "{{ 1" + nested(" + 1", "", "") + " }}"),
            "t.jinja:1: expressions are nested more than 100 deep");
  EXPECT_EQ(error_of_source(ErrorCode::kConfiguration, "{{ " + nested("not ", "1", "") + " }}"),
            "t.jinja:1: expressions are nested more than 100 deep");
  EXPECT_EQ(error_of_source(ErrorCode::kConfiguration, nested("{% if 1 %}", "", "{% endif %}")),
            "t.jinja:1: blocks are nested more than 100 deep");
  EXPECT_EQ(
      error_of_source(ErrorCode::kConfiguration, "{% set " + nested("(", "a", ")") + " = 1 %}"),
      "t.jinja:1: expressions are nested more than 100 deep");
  EXPECT_EQ(error_of_source(ErrorCode::kBadData,
                            "{% set ns = namespace(x=[]) %}{% for i in range(200) %}"
                            "{% set ns.x = [ns.x] %}{% endfor %}"),
            "t.jinja:1: lists are nested more than 100 deep");
  // Large.
  EXPECT_EQ(error_of_source(ErrorCode::kBadData,
                            "{% set ns = namespace(x='ab') %}{% for i in range(200) %}"
                            "{% set ns.x = ns.x + ns.x %}{% endfor %}"),
            "t.jinja:1: the template makes a text of more than 16 MiB");
  EXPECT_EQ(
      error_of_source(ErrorCode::kBadData,
                      "{% set x = 'a' * 1000000 %}{% for i in range(100) %}{{ x }}{% endfor %}"),
      "t.jinja:1: the template makes a text of more than 16 MiB");
  EXPECT_EQ(error_of_source(ErrorCode::kBadData, "{{ 'ab' * 9223372036854775807 }}"),
            "t.jinja:1: the template makes a text of more than 16 MiB");
  EXPECT_EQ(error_of_source(ErrorCode::kBadData,
                            "{% set ns = namespace(x=[1]) %}{% for i in range(200) %}"
                            "{% set ns.x = ns.x + ns.x %}{% endfor %}"),
            "t.jinja:1: the template makes more than 256 MiB of values");
  EXPECT_EQ(error_of_source(ErrorCode::kBadData, "{{ [1] * 9223372036854775807 }}"),
            "t.jinja:1: the template makes more than 256 MiB of values");
  EXPECT_EQ(error_of_source(ErrorCode::kBadData, "{{ range(9223372036854775807)|list }}"),
            "t.jinja:1: a range of more than 100000 numbers");
}

TEST(ChatTemplate, KeepsMacrosAndNamespacesOfInnerBlocks) {
  EXPECT_EQ(rendered("{% set ns = namespace(f=none) %}{% for i in [1, 2] %}"
                     "{% macro f(x) %}{{ i }}{{ x }}{% endmacro %}{% set ns.f = f %}{% endfor %}"
                     "{% set f = ns.f %}{{ f('a') }}{% set ns.me = ns %}{{ ns.me.me is defined }}"),
            "2aTrue");
}

}  // namespace
}  // namespace phalanx
