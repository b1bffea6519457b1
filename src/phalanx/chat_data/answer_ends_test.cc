#include "phalanx/chat_data/answer_ends.h"

#include <gmock/gmock.h>

#include <numeric>

#include "phalanx/chat_data/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class AnswerEndsTest : public ConversationTest {
 protected:
  std::string fault(const ConversationOptions& options, const std::vector<std::string>& lines,
                    std::int64_t most_tokens = 1000, Truncation truncation = Truncation::kEnd) {
    const auto all = read(write("c.jsonl", lines), options);
    std::vector<std::uint32_t> numbers(static_cast<std::size_t>(all->size()));
    std::iota(numbers.begin(), numbers.end(), 0U);
    return fault_of_answer_ends(ChosenConversations(all, numbers, most_tokens, truncation),
                                tokenizer_, options);
  }
};

TEST_F(AnswerEndsTest, AnEndThatIsTrainedIsNoFault) {
  for (const std::string_view source : {kChatMl, kPlainChatMl, kLlama3}) {
    EXPECT_THAT(fault(options(source), {line("a", "b")}), IsEmpty());
  }
  // One in many is enough: others may say that they are not trained.
  const std::string untrained =
      R"({"messages": [{"role": "user", "content": "a"},
                       {"role": "assistant", "content": "b", "weight": 0}]})";
  EXPECT_THAT(fault(options(), {untrained, untrained, line("a", "b")}), IsEmpty());
  ConversationOptions parsed = options();
  parsed.parses_special_tokens = true;
  EXPECT_THAT(fault(parsed, {R"({"text": "a<|im_end|>"})"}), IsEmpty());
}

TEST_F(AnswerEndsTest, TheTokenThatIsNotTrainedIsNamed) {
  // Behind {% generation %}.
  EXPECT_THAT(
      fault(options("{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}"
                    "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
                    "<|im_end|>{% endfor %}"),
            {line("a", "b"), line("a", "b")}),
      AllOf(HasSubstr("no trained token is '<|im_end|>', with which the template ends a turn: "
                      "answers will not end"),
            HasSubstr("{% generation %}")));
  // A turn ends where the next begins.
  constexpr std::string_view kOpen =
      "{% for m in messages %}<|im_start|>{{ m.role + ' ' + m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}";
  EXPECT_THAT(fault(options(kOpen), {line("a", "b")}),
              HasSubstr("the template writes no special token behind an answer"));
  // Texts that no template ends.
  EXPECT_THAT(fault(options(), {R"({"prompt": "a", "completion": "b"})"}),
              HasSubstr("no trained token is '<|im_end|>'"));
  // All are cut before their end.
  EXPECT_THAT(fault(options(), {line("a", "bcdefghijk")}, 30),
              HasSubstr("; 1 of 1 conversations are cut to --seq-length"));
}

}  // namespace
}  // namespace phalanx
