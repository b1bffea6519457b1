#include "phalanx/chat/conversation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string contents_of(const Conversation& conversation) {
  std::string all;
  for (const ChatMessage& message : conversation.messages) {
    all += message.role + "=" + message.content + ";";
  }
  return all;
}

Conversation read_line(std::string_view line, ConversationRules rules = {.needs_answer = false}) {
  return ConversationReader("f", rules).read(line, 1);
}

TEST(Conversations, AreReadByTheirKeys) {
  const auto read = [](std::string_view line) { return ConversationReader("f").read(line, 1); };
  const auto contents = [&](std::string_view line) { return contents_of(read(line)); };
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
      {R"({"messages": [{"role": "user", "content": null, "tool_calls": [{"id": "a"}]}]})",
       "\"tool_calls\" is not supported"},
      {R"({"messages": [], "tools": [{"type": "function"}]})", "\"tools\" is not supported"},
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

TEST(Conversations, IncompleteOnesMayBeMarked) {
  ConversationReader reader("f", {.takes_incomplete = true});
  const auto is_incomplete = [&](const char* line) { return reader.read(line, 1).is_incomplete; };
  EXPECT_TRUE(is_incomplete(R"({"messages": [{"role": "user", "content": "a"}]})"));
  EXPECT_TRUE(is_incomplete(R"({"messages": [{"role": "assistant", "content": "a"},
                                            {"role": "user", "content": "b"}]})"));
  EXPECT_FALSE(is_incomplete(R"({"messages": [{"role": "assistant", "content": "a"}]})"));
}

// The keys of published data sets.
TEST(Conversations, AreReadInEveryDialect) {
  const auto contents = [](std::string_view line) { return contents_of(read_line(line)); };
  EXPECT_EQ(contents(R"({"system": "S", "instruction": "a", "input": "", "output": "b",
                         "history": [["x", "y"], ["z", "w"]]})"),
            "system=S;user=x;assistant=y;user=z;assistant=w;user=a;assistant=b;");
  EXPECT_EQ(contents(R"({"instruction": "a", "output": "b", "system": null, "history": []})"),
            "user=a;assistant=b;");
  EXPECT_EQ(contents(R"({"conversations": [{"role": "user", "content": "a"},
                         {"role": "assistant", "content": "b"}], "system": "S", "tools": "[]"})"),
            "system=S;user=a;assistant=b;");
  EXPECT_EQ(contents(R"({"messages": [{"from": "human", "value": "a"},
                         {"from": "gpt", "value": "b"}]})"),
            "user=a;assistant=b;");
  EXPECT_EQ(contents(R"({"conversations": [{"from": "human", "value": "a", "role": "user",
                         "content": "a"}]})"),
            "user=a;");
  EXPECT_EQ(contents(R"({"messages": [{"role": "system", "content": "S"}], "system": "S"})"),
            "system=S;");
  const Conversation split = read_line(R"({"prompt": [{"role": "user", "content": "a"}],
      "completion": [{"role": "assistant", "content": "b"}], "system": "S"})");
  EXPECT_EQ(contents_of(split), "system=S;user=a;assistant=b;");
  EXPECT_EQ(split.prompt_messages, 2U);
  EXPECT_EQ(contents_of(read_line(R"({"prompt": "a", "response": "b", "system": "S"})",
                                  {.needs_answer = false, .takes_questions = true})),
            "system=S;user=a;");
}

// Tables write a column in every line.
TEST(Conversations, EmptyIsAsAbsent) {
  for (const char* key :
       {"tools", "functions", "chat_template_kwargs", "system", "history", "id"}) {
    for (const char* value : {"null", "[]", "{}", "\"\"", "\"[]\""}) {
      if (std::string_view(key) == "system" && value[0] == '[') continue;
      const Conversation read = read_line(fmt::format(
          R"({{"messages": [{{"role": "user", "content": "a", "tool_calls": {1},
               "function_call": {1}, "train_detail": {1}}}], "{0}": {1}}})",
          key, value));
      EXPECT_EQ(contents_of(read), "user=a;") << key << value;
      EXPECT_THAT(read.arguments, IsEmpty()) << key << value;
    }
  }
}

TEST(Conversations, NameTheKeysThatTheyDoNotRead) {
  const auto unused = [](std::string_view line) { return read_line(line).unused_keys; };
  EXPECT_THAT(unused(R"({"id": 1, "messages": [], "tools": null, "system": "", "images": [],
                         "prompt": "a", "weight": 1})"),
              ElementsAre("id", "prompt"));
  EXPECT_THAT(unused(R"({"instruction": "a", "input": "", "context": "x", "output": "b",
                         "category": "c", "text": "t", "messages": null})"),
              ElementsAre("context", "category", "text"));
  EXPECT_THAT(unused(R"({"prompt": "a", "completion": "b", "label": false, "system": "S"})"),
              ElementsAre("label", "system"));
  EXPECT_THAT(unused(R"({"text": "a", "chat_template_kwargs": {"x": 1}})"),
              ElementsAre("chat_template_kwargs"));
  EXPECT_THAT(unused(R"({"messages": [], "chosen": [1], "rejected": [1], "documents": [1]})"),
              ElementsAre("chosen", "rejected", "documents"));
  EXPECT_THAT(unused(R"({"conversations": [], "history": [["a", "b"]]})"), ElementsAre("history"));
}

TEST(Conversations, SayWhatIsNotThere) {
  const auto refusal = [](std::string_view line) { return error_of([&] { read_line(line); }); };
  const auto of_message = [&](std::string_view key) {
    return refusal(
        fmt::format(R"({{"messages": [{{"role": "assistant", "content": "a", {}}}]}})", key));
  };
  EXPECT_THAT(of_message(R"("weight": 0.5)"),
              HasSubstr("f:1: message 1: \"weight\" is 0.5: 1 and true, 0 and false are there"));
  for (const char* key : {R"("weight": 2)", R"("train": "no")", R"("loss": [1])", R"("weight": -1)",
                          R"("trainable": {})"}) {
    EXPECT_THAT(of_message(key), HasSubstr("a share of a loss is not supported")) << key;
  }
  EXPECT_THAT(of_message(R"("weight": 1, "train": false)"),
              HasSubstr("\"weight\" and \"train\" differ"));
  EXPECT_THAT(of_message(R"("train_detail": [{"begin_offset": 0}])"),
              HasSubstr("\"train_detail\" is not supported"));
  EXPECT_THAT(of_message(R"("mask": 1)"), HasSubstr("could mean what is trained"));
  EXPECT_THAT(of_message(R"("function_call": {"name": "f"})"),
              HasSubstr("\"function_call\" is not supported"));
  EXPECT_THAT(of_message("\"x\": " + std::string(100'000, '[') + std::string(100'000, ']')),
              HasSubstr("values are nested more than 90 deep"));
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"messages": [], "weight": 0.3})", "\"weight\" is 0.3"},
      {R"({"text": "a", "train": "yes"})", "\"train\" is \"yes\""},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c"})", "preferences are not trained"},
      {R"({"chosen": [{"role": "user", "content": "b"}]})", "preferences are not trained"},
      {R"({"messages": [], "functions": [{"name": "f"}]})", "\"functions\" is not supported"},
      {R"({"messages": [], "system": ["a"]})", "\"system\" is no text"},
      {R"({"messages": [{"role": "system", "content": "S"}], "system": "T"})",
       "\"system\" and the first message, which is a system's too, differ"},
      {R"({"instruction": "a", "output": "b", "history": [["a"]]})",
       "\"history\" is no list of pairs of texts"},
      {R"({"conversations": [{"from": "gpt", "value": "a", "role": "user"}]})",
       "a message has \"role\" beside \"from\", and they differ"},
      {R"({"conversations": [{"from": "gpt", "value": "a", "content": "b"}]})",
       "a message has \"content\" beside \"value\", and they differ"},
      {R"({"conversations": [{"role": "user", "value": "a"}]})", "\"content\" is missing"},
      {R"({"messages": [], "chat_template_kwargs": {"tools": []}})", "\"tools\" cannot be set"},
      {R"({"messages": [], "chat_template_kwargs": [1]})", "is no JSON object"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_THAT(refusal(line), HasSubstr(std::string(message))) << line;
  }
}

}  // namespace
}  // namespace phalanx
