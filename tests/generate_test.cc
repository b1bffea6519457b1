// generate with a GPT, as it is typed.

#include <algorithm>
#include <cctype>

#include "program_test.h"

namespace phalanx {
namespace {

using Output = ProgramOutput;

class GenerateCommand : public ProgramTest {
 protected:
  void pretrain() const {
    prepare();
    const Output output = run("pretrain gpt " + training() + "--save one --save-interval 8");
    ASSERT_EQ(output.status, 0) << output.err;
  }
  Json generate(const std::string& words) const {
    return run_json("generate --load one --max-tokens 10 --ignore-eos --json " + words);
  }
};

TEST_F(GenerateCommand, SeveralPromptsHaveTheirOwnAnswers) {
  pretrain();
  const std::vector<std::string> prompts = {"And the", "a, b", "The"};
  Json alone = Json::array();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Json one = generate(fmt::format("--prompt '{}' --seed {}", prompts[i], 3 + i));
    EXPECT_EQ(one.at("finish"), "length");
    EXPECT_EQ(one.at("tokens").size(), 10U);
    one.erase("rates");
    alone.push_back(one);
  }
  const std::string all = "--prompt 'And the' --prompt 'a, b' 'The' --seed 3 ";
  for (const char* batch : {"1", "2", "8"}) {
    const Json together = generate(all + "--batch-prompts " + batch);
    EXPECT_EQ(together.at("answers"), alone) << batch;
    EXPECT_EQ(together.at("rates").at("decoded_tokens"), 27);
  }
  write("prompts.txt", "And the\n\na, b\r\nThe");
  EXPECT_EQ(generate("--prompts-file prompts.txt --seed 3").at("answers"), alone);
  write("prompts.jsonl", "{\"prompt\": \"And the\"}\n{\"id\": 1, \"prompt\": \"a, b\"}\n");
  EXPECT_EQ(generate("--prompts-file prompts.jsonl --seed 3").at("answers").at(1), alone.at(1));
  // Text is shown in the order of the prompts, with an empty line between them.
  const std::string words = "generate --load one --max-tokens 10 --ignore-eos ";
  const Output text = run(words + all);
  std::string expected;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    expected += (i == 0 ? "" : "\n") +
                run(fmt::format("{} --prompt '{}' --seed {}", words, prompts[i], 3 + i)).out;
  }
  EXPECT_EQ(text.out, expected);
  EXPECT_NE(text.err.find("answers 27 tokens, "), std::string::npos) << text.err;
}

TEST_F(GenerateCommand, RanksAndDtypesOfItsOwn) {
  pretrain();
  const std::string words = "--prompt 'And the' --temperature 0 ";
  const Json one = generate(words);
  EXPECT_EQ(generate(words + "--tensor-model-parallel-size 2 --threads-per-rank 1").at("tokens"),
            one.at("tokens"));
  EXPECT_EQ(generate(words + "--dtype bf16").at("tokens").size(), 10U);
  expect_error("generate --load one --tensor-model-parallel-size 3", 78,
               "--tensor-model-parallel-size 3");

  const Json fp32 = generate(words + "--plan").at("bytes");
  const Json bf16 = generate(words + "--plan --dtype bf16").at("bytes");
  EXPECT_EQ(fp32.at("key_value_cache").get<int>(), 2 * bf16.at("key_value_cache").get<int>());
  EXPECT_EQ(fp32.at("parameters").get<int>(), 2 * bf16.at("parameters").get<int>());
  EXPECT_EQ(fp32.at("total").get<int>(),
            fp32.at("parameters").get<int>() + fp32.at("key_value_cache").get<int>() +
                fp32.at("constants").get<int>() + fp32.at("workspace").get<int>());
  const Output table = run("generate --load one --plan");
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_NE(table.out.find("key/value cache"), std::string::npos) << table.out;
}

TEST_F(GenerateCommand, EndsInFrontOfAStopSequence) {
  pretrain();
  const Json whole = generate("--prompt 'And the' --temperature 0");
  const std::string text = whole.at("text");
  std::size_t at = 1;
  while (at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) == 0) ++at;
  ASSERT_LT(at, text.size()) << text;
  const std::string stop = text.substr(at, 1);
  const Json cut = generate("--prompt 'And the' --temperature 0 --stop zzz --stop " + stop);
  EXPECT_EQ(cut.at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(cut.at("finish"), "stop");
  EXPECT_LE(cut.at("tokens").size(), whole.at("tokens").size());
  expect_error("generate --load one --stop ''", 78, "--stop is empty");
}

TEST_F(GenerateCommand, BeamsFindWhatIsAtLeastAsLikely) {
  pretrain();
  const auto loss = [&](const Json& answer) {
    std::string ids;
    for (const char* part : {"prompt", "tokens"}) {
      for (const int id : answer.at(part)) ids += fmt::format(" {}", id);
    }
    const Json scores = run_json("score --load one --json --tokens" + ids).at("log_probabilities");
    double sum = 0.0;
    for (std::size_t i = scores.size() - answer.at("tokens").size(); i < scores.size(); ++i) {
      sum += scores[i].get<double>();
    }
    return sum;
  };
  const std::string words = "--prompt 'And the' --max-tokens 6 ";
  const Json greedy = generate(words + "--temperature 0");
  EXPECT_EQ(generate(words + "--num-beams 1 --temperature 0").at("tokens"), greedy.at("tokens"));
  const Json beams = generate(words + "--num-beams 4");
  EXPECT_EQ(beams.at("tokens").size(), 6U);
  EXPECT_GE(loss(beams), loss(greedy) - 1e-4);
}

TEST_F(GenerateCommand, GoesOnLineByLine) {
  pretrain();
  const std::string words =
      "generate --load one --interactive --max-tokens 6 --temperature 0 --ignore-eos";
  const Output first = run(words, "And the\n");
  EXPECT_EQ(first.status, 0) << first.err;
  const std::string prompt = "And the";
  const Output once = run(
      "generate --load one --max-tokens 6 --temperature 0 --ignore-eos --prompt '" + prompt + "'");
  EXPECT_EQ(prompt + first.out, once.out);
  // What was said is part of what follows, until it is forgotten.
  const Output twice = run(words, "And the\nAnd the\n");
  EXPECT_EQ(twice.out.substr(0, first.out.size()), first.out);
  for (const std::string forget : {"", "/reset"}) {
    EXPECT_EQ(run(words, "And the\n" + forget + "\nAnd the\n").out, first.out + first.out);
  }
  EXPECT_EQ(run(words, "").out, "");
  // It is left by a word, too; what looks like one and is none is no prompt.
  for (const std::string leave : {"/quit", "/exit"}) {
    EXPECT_EQ(run(words, "And the\n" + leave + "\nAnd the\n").out, first.out);
  }
  const Output unknown = run(words, "/help\nAnd the\n");
  EXPECT_EQ(unknown.out, first.out);
  EXPECT_NE(unknown.err.find("/help is no command: /reset or an empty line forgets what was said, "
                             "/quit or /exit ends"),
            std::string::npos)
      << unknown.err;
  EXPECT_EQ(run(words, "/usr/bin is\n").err.find("is no command"), std::string::npos);
  const Output full = run(words + " --context 8", "And the\nand so on, and so on, and so on\n");
  EXPECT_EQ(full.status, 0) << full.err;
  EXPECT_NE(full.err.find("/reset forgets them"), std::string::npos) << full.err;
}

// A conversation in the tokens of prepare()'s vocabulary, whose only special token is
// <|endoftext|>.
constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role + ': ' + m.content + '<|endoftext|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

TEST_F(GenerateCommand, AnswersConversations) {
  pretrain();
  write("chat.jinja", kTemplate);
  const std::string words = "--temperature 0 --chat --chat-template chat.jinja ";
  const Json one = generate(words + "--system Be --prompt 'And the'");
  EXPECT_EQ(one.at("messages"), Json::parse(R"([{"role": "system", "content": "Be"},
                                                {"role": "user", "content": "And the"}])"));
  // As with the same ids, given by hand.
  const std::string text = "system: Be<|endoftext|>user: And the<|endoftext|>assistant: ";
  const Json by_hand = generate("--temperature 0 --parse-special-tokens --prompt '" + text + "'");
  for (const char* key : {"prompt", "tokens", "text", "finish"}) {
    EXPECT_EQ(one.at(key), by_hand.at(key)) << key;
  }
  // Only the answer is printed, with the same end.
  const Output shown = run("generate --load one --max-tokens 10 --ignore-eos " + words +
                           "--system Be --prompt 'And the'");
  EXPECT_EQ(shown.out, one.at("text").get<std::string>() + "\n");
  // A file of conversations; the last has the text of a special token, which stays text.
  write(
      "chats.jsonl",
      R"({"messages": [{"role": "system", "content": "Be"}, {"role": "user", "content": "And the"}]})"
      "\n"
      R"({"prompt": "a<|endoftext|>"})"
      "\n");
  const Json all = generate(words + "--prompts-file chats.jsonl").at("answers");
  EXPECT_EQ(all.at(0).at("tokens"), one.at("tokens"));
  const Json end = generate("--parse-special-tokens --prompt '<|endoftext|>'").at("prompt").at(0);
  const auto is_special = [&](const Json& id) { return id == end; };
  EXPECT_EQ(std::ranges::count_if(all.at(1).at("prompt"), is_special), 1);
}

TEST_F(GenerateCommand, ChatsLineByLine) {
  pretrain();
  write("chat.jinja", kTemplate);
  const std::string once =
      "generate --load one --max-tokens 3 --temperature 0 --ignore-eos --chat "
      "--chat-template chat.jinja ";
  const std::string words = once + "--interactive ";
  const std::string first = run(once + "--prompt a").out;
  const Output twice = run(words, "a\nb\n");
  EXPECT_EQ(twice.status, 0) << twice.err;
  // The second answer is that to the whole conversation, of which only the end is read.
  const std::string said = first.substr(0, first.size() - 1);
  const Json conversation = {{"messages",
                              {{{"role", "user"}, {"content", "a"}},
                               {{"role", "assistant"}, {"content", said}},
                               {{"role", "user"}, {"content", "b"}}}}};
  write("chats.jsonl", conversation.dump() + "\n");
  EXPECT_EQ(twice.out, first + run(once + "--prompts-file chats.jsonl").out);
  EXPECT_EQ(run(words, "a\n/reset\na\n/quit\na\n").out, first + first);
  EXPECT_EQ(
      run(words, "/system S\na\n\na\n/system\n\na\n").out,
      run(once + "--system S --prompt a").out + run(once + "--system S --prompt a").out + first);
  const Output unknown = run(words, "/help\na\n");
  EXPECT_EQ(unknown.out, first);
  EXPECT_NE(unknown.err.find("/help is no command"), std::string::npos) << unknown.err;
  const Output full = run(words + "--context 8", "and so on, and so on, and so on\n");
  EXPECT_EQ(full.out, "");
  EXPECT_NE(full.err.find("/reset forgets them"), std::string::npos) << full.err;
}

TEST_F(GenerateCommand, TellsWhatAConversationLacks) {
  pretrain();
  write("chat.jinja", kTemplate);
  expect_error("generate --load one --chat --prompt a", 78, "--chat-template FILE names one");
  const std::string words = "generate --load one --chat --chat-template chat.jinja ";
  expect_error(words, 78, "--chat answers --prompt, --prompts-file or --interactive");
  expect_error(words + "--prompt ''", 78, "--prompt is empty");
  expect_error(words + "--prompt a --parse-special-tokens", 78, "--parse-special-tokens");
  expect_error(words + "--prompt a --chat-template-date today", 78, "--chat-template-date today");
  expect_error(words + "--prompt a --chat-template-args []", 78, "JSON object");
  expect_error("generate --load one --prompt a --system S", 78, "--chat");
  expect_error("generate --load one --chat --chat-template none.jinja --prompt a", 66,
               "none.jinja");
  write("no.jinja", "{{ raise_exception('only two') }}");
  expect_error("generate --load one --chat --chat-template no.jinja --prompt a", 65, "only two");
  write("chats.jsonl", R"({"messages": [{"role": "assistant", "content": "x"}]})");
  expect_error(words + "--prompts-file chats.jsonl", 65, "chats.jsonl, line 1");
  expect_error("generate --load one --prompts-file chats.jsonl", 65, "--chat reads");
  write("chats.jsonl", R"({"messages": [{"role": "system", "content": "x"}]})");
  expect_error(words + "--system S --prompts-file chats.jsonl", 65, "leave --system out");
  write("chats.jsonl", R"({"prompt": "a", "system": "S"})"
                       "\n"
                       R"({"messages": [{"role": "user", "content": "a", "mood": "x"}], "id": 1})"
                       "\n");
  const Output unused = run(words + "--prompts-file chats.jsonl --max-tokens 1");
  EXPECT_EQ(unused.status, 0) << unused.err;
  EXPECT_NE(unused.err.find("warning: chats.jsonl: these keys change nothing: \"id\" (1), \"mood\" "
                            "of messages (1)"),
            std::string::npos)
      << unused.err;
  expect_error(words + "--system T --prompts-file chats.jsonl", 65, "leave --system out");
  // Beams and stops are as without it.
  const Json beams = run_json(words + "--prompt a --num-beams 2 --max-tokens 4 --json");
  EXPECT_LE(beams.at("tokens").size(), 4U);
  const Json stopped = run_json(words + "--prompt a --stop e --max-tokens 8 --json");
  EXPECT_EQ(stopped.at("text").get<std::string>().find('e'), std::string::npos);
}

TEST_F(GenerateCommand, AnInterruptEndsWithWhatThereIs) {
  pretrain();
  std::string prompts;
  for (int i = 0; i < 20000; ++i) prompts += "And the\n";
  write("prompts.txt", prompts);
  const Output output = run_between(
      "", "generate --load one --prompts-file prompts.txt --batch-prompts 1",
      "&\nn=0\nuntil [ -s stdout ] || [ $n -ge 600 ]; do sleep 0.1; n=$((n + 1)); done\n"
      "kill -INT $!\nwait $!");
  EXPECT_EQ(output.status, 130) << output.err;
  EXPECT_NE(output.err.find("SIGINT: ending with what there is"), std::string::npos) << output.err;
  EXPECT_TRUE(output.out.starts_with("And the")) << output.out;
}

TEST_F(GenerateCommand, TellsWhatIsWrong) {
  pretrain();
  const std::string words = "generate --load one ";
  expect_error(words + "--prompts-file none.txt", 66, "none.txt");
  write("empty.txt", "\n");
  expect_error(words + "--prompts-file empty.txt", 65, "empty.txt: has no prompt");
  write("bad.jsonl", "{\"prompt\": \"x\"}\n{\"text\": 1}\n");
  expect_error(words + "--prompts-file bad.jsonl", 65, "bad.jsonl, line 2");
  std::string lengthy;
  for (int i = 0; i < 400; ++i) lengthy += "and the ";
  expect_error(words + "--prompt '" + lengthy + "'", 78, "shorten it");
  expect_error(words + "--num-beams 2 --top-k 3", 78, "--top-k");
  expect_error(words + "--num-beams 2 --stop x", 78, "--stop");
  expect_error(words + "--interactive --json", 78, "--json");
  expect_error(words + "--length-penalty 2", 78, "--num-beams");
  expect_error(words + "--min-p 2", 78, "--min-p");
  expect_error(words + "--repetition-penalty 0", 78, "--repetition-penalty");
}

}  // namespace
}  // namespace phalanx
