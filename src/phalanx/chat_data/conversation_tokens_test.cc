#include "phalanx/chat_data/conversation_tokens.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "phalanx/chat_data/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// [first, last) of each run of trained tokens.
std::vector<std::pair<int, int>> runs(std::span<const std::uint8_t> mask) {
  std::vector<std::pair<int, int>> found;
  for (int i = 0; i < static_cast<int>(mask.size()); ++i) {
    if (mask[static_cast<std::size_t>(i)] == 0) continue;
    if (found.empty() || found.back().second != i) found.emplace_back(i, i);
    found.back().second = i + 1;
  }
  return found;
}

// The ids and masks of transformers.
TEST_F(ConversationTest, IdsAndMasksAreThoseOfTheEncoder) {
  const std::string file = write("c.jsonl", {golden_line(), "", line("a", "b"), golden_line()});
  const auto all = read(file, options());
  ASSERT_EQ(all->size(), 3);
  const std::vector<std::int32_t> expected = {
      258, 115, 121, 115, 116, 101, 109, 10,  83,  259, 10,  258, 117, 115, 101, 114, 10,
      32,  104, 105, 32,  259, 10,  258, 97,  115, 115, 105, 115, 116, 97,  110, 116, 10,
      32,  121, 111, 10,  259, 10,  258, 117, 115, 101, 114, 10,  195, 169, 63,  259, 10,
      258, 97,  115, 115, 105, 115, 116, 97,  110, 116, 10,  111, 107, 259, 10};
  for (const std::int64_t i : {0, 2}) {
    EXPECT_EQ(ids_of(*all, i), expected);
    EXPECT_THAT(runs(all->trained(i)), ElementsAre(std::pair(34, 39), std::pair(62, 65)));
    EXPECT_EQ(all->entry(i).trained_labels, 8);
  }
  EXPECT_EQ(all->entry(1).line, 3);
  EXPECT_EQ(all->entry(2).line, 4);
  EXPECT_EQ(all->counts().longest, 66);
  EXPECT_EQ(all->counts().tokens, 2 * 66 + all->entry(1).tokens);
  const auto plain = read(file, options(kPlainChatMl));
  EXPECT_THAT(runs(plain->trained(0)), ElementsAre(std::pair(34, 40), std::pair(62, 66)));
  ConversationOptions last = options();
  last.settings.loss = ChatLoss::kLast;
  EXPECT_THAT(runs(read(file, last)->trained(0)), ElementsAre(std::pair(62, 65)));
}

// Several rounds of chunks, in which lines are longer than one.
TEST_F(ConversationTest, ThreadsKeepTheOrderOfTheFile) {
  std::vector<std::string> lines;
  for (int i = 0; i < 600; ++i)
    lines.push_back(line(fmt::format("{}", i), std::string(i * 7, 'x')));
  lines[5] = line("5", std::string(1 << 18, 'y'));
  lines.erase(lines.begin());  // its answer is empty
  const std::string file = write("c.jsonl", lines);
  const auto all = read(file, options());
  ConversationOptions one = options();
  one.threads = 1;
  const auto slow = read(file, one);
  ASSERT_EQ(all->size(), 599);
  for (std::int64_t i = 0; i < 599; ++i) {
    EXPECT_EQ(all->entry(i).line, i + 1);
    EXPECT_EQ(ids_of(*all, i), ids_of(*slow, i)) << i;
  }
}

TEST_F(ConversationTest, ACacheKeepsWhatEverythingDecides) {
  const std::string file = write("c.jsonl", {golden_line()});
  const IndexCache cache(directory_ / "cache");
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(directory_ / "cache"), {});
  };
  const auto made = read(file, options(), &cache);
  const auto found = read(file, options(), &cache);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(ids_of(*made, 0), ids_of(*found, 0));
  EXPECT_THAT(runs(found->trained(0)), ElementsAre(std::pair(34, 39), std::pair(62, 65)));
  read(file, options(kPlainChatMl), &cache);
  ConversationOptions other = options();
  other.settings.loss = ChatLoss::kLast;
  read(file, other, &cache);
  other = options();
  other.drops_incomplete = true;
  read(file, other, &cache);
  other = options();
  other.tokenizer_identity = "other";
  read(file, other, &cache);
  write("c.jsonl", {golden_line(), golden_line()});
  EXPECT_EQ(read(file, options(), &cache)->size(), 2);
  EXPECT_EQ(files(), 6);
}

// Once for the file, whoever reads a line, and from the cache as from the file.
TEST_F(ConversationTest, KeysThatChangeNothingAreCounted) {
  std::vector<std::string> lines;
  for (int i = 0; i < 2000; ++i) {
    lines.push_back(fmt::format(
        R"({{"id": {}, "messages": [{{"role": "user", "content": "{}", "name": "n"}},
            {{"role": "assistant", "content": "b", "weight": {}, "thought": "{}"}}]}})",
        i, std::string(200, 'a'), i % 2, i % 3 == 0 ? "t" : ""));
  }
  const std::string file = write("c.jsonl", lines);
  const IndexCache cache(directory_ / "cache");
  for (int i = 0; i < 2; ++i) {
    const auto all = read(file, options(), &cache);
    EXPECT_EQ(all->unused_keys(),
              R"("id" (2,000), "name" of messages (2,000), "thought" of messages (667))");
    EXPECT_EQ(all->entry(0).trained_labels, 0);
    EXPECT_EQ(all->entry(1).trained_labels, 2);
    EXPECT_EQ(all->size(), 2000);
  }
  // A template that reads a key of one line alone uses it.
  const auto read_once = read(
      file, options("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}"
                    "{% generation %}{{ m.content }}{{ m.thought if m.weight }}{% endgeneration %}"
                    "{% endif %}{% endfor %}"));
  EXPECT_EQ(read_once->unused_keys(), R"("id" (2,000), "name" of messages (2,000))");
  ConversationOptions with_arguments = options();
  with_arguments.settings.arguments = R"({"thinks": true})";
  EXPECT_EQ(read(write("d.jsonl", {line("a", "b")}), with_arguments)->unused_keys(),
            R"("thinks" of --chat-template-args (1))");
}

// Of all faults the first one in the file is told, whichever thread meets one first.
TEST_F(ConversationTest, FaultsNameTheFirstBadLine) {
  const auto error = [&](const std::vector<std::string>& lines,
                         const ConversationOptions& how = options()) {
    return error_of([&] { read(write("c.jsonl", lines), how); });
  };
  std::vector<std::string> lines(1000, line("a", std::string(1000, 'b')));
  for (std::size_t i = 700; i < lines.size(); i += 2) lines[i] = "{";
  EXPECT_THAT(error(lines), HasSubstr("c.jsonl:701: it is no JSON object"));
  EXPECT_THAT(error({line("a", "b"), line("a<|im_end|>", "b")}),
              AllOf(HasSubstr("c.jsonl:2: message 1 has the text of a special token"),
                    HasSubstr("--sft-special-tokens-in-content parse")));
  EXPECT_THAT(error({line("a", "b"), R"({"messages": [{"role": "user", "content": "a"},
                  {"role": "assistant", "content": "b", "thought": ["<|im_end|>"]}]})"}),
              HasSubstr("c.jsonl:2: message 2: \"thought\" has the text of a special token"));
  EXPECT_THAT(error({line("a", "b"), R"({"messages": [{"role": "user", "content": "a"},
                  {"role": "assistant", "content": "b", "weight": 0.5}]})"}),
              HasSubstr("c.jsonl:2: message 2: \"weight\" is 0.5"));
  EXPECT_THAT(error({line("a", "b"), R"({"messages": [{"role": "user", "content": "a"}]})"}),
              HasSubstr("c.jsonl:2: no message is an assistant's"));
  EXPECT_THAT(error({line("a", "b"), line("c", "d")},
                    options("{{ raise_exception('no ' + messages[0].content) }}")),
              HasSubstr("c.jsonl:1: t.jinja:1: the template refuses the conversation: no a"));
  // An answer that the template writes otherwise when more follows.
  EXPECT_THAT(error({golden_line()}, options("{% for m in messages %}{{ m.content }}"
                                             "{% if loop.last %}!{% endif %}{% endfor %}")),
              AllOf(HasSubstr("c.jsonl:1: --sft-loss assistant: what is trained is not known: "
                              "message 3: "),
                    HasSubstr("{% generation %}"), HasSubstr("give another --sft-loss: last")));
  EXPECT_THAT(error({"", "  "}), HasSubstr("c.jsonl: it has no conversations"));
  EXPECT_THAT(error({"\x1f\x8b\x08"}), HasSubstr("gzip -d"));
  EXPECT_THAT(error({line("a", "b"), R"({"text": "a"})"}),
              HasSubstr("c.jsonl:2: it has text, and the lines before have messages"));
}

TEST_F(ConversationTest, WhatMayBeLeftOutOrParsed) {
  ConversationOptions how = options();
  how.parses_special_tokens = true;
  how.drops_incomplete = true;
  const auto all = read(write("c.jsonl", {R"({"messages": [{"role": "user", "content": "a"}]})",
                                          line("a<|im_end|>b", "c")}),
                        how);
  EXPECT_EQ(all->size(), 1);
  EXPECT_EQ(all->counts().incomplete, 1);
  EXPECT_EQ(all->entry(0).line, 2);
  EXPECT_THAT(ids_of(*all, 0), testing::IsSupersetOf({97, 259, 98}));
}

}  // namespace
}  // namespace phalanx
