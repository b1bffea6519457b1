// train-tokenizer as it is called: it reads what preprocess-data reads.

#include <gmock/gmock.h>

#include "program_test.h"

namespace phalanx {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TrainTokenizerTest : public ProgramTest {
 protected:
  // What is learned of these inputs, as text.
  std::string learned(const std::string& words, const std::string& input = "",
                      const std::string& type = "bpe") const {
    const auto output =
        run("train-tokenizer --vocab-size 300 --min-frequency 1 --overwrite --output "
            "tok --type " +
                type + " --input " + words,
            input);
    EXPECT_EQ(output.status, 0) << output.err;
    return type == "bpe" ? read("tok/vocab.json") + read("tok/merges.txt") : read("tok/vocab.txt");
  }
  // A line of JSON a sentence, and the same as text.
  void write_texts() const {
    std::string lines, text;
    for (int i = 0; i < 200; ++i) {
      const auto sentence = fmt::format("And the {} said unto the {}.", i % 7, i % 5);
      lines += fmt::format("{{\"id\": {}, \"text\": \"{}\", \"b\": \"zzzz\"}}\n", i, sentence);
      text += sentence + "\n";
    }
    write("a.jsonl", lines);
    write("wiki_00", lines);
    write("a.txt", text);
    const auto packing = fmt::format("cd '{}' && gzip -c a.jsonl > a.jsonl.gz && gzip -c a.txt > x",
                                     directory_.string());
    ASSERT_EQ(std::system(packing.c_str()), 0);
  }
};

TEST_F(TrainTokenizerTest, ReadsWhatPreprocessDataReads) {
  write_texts();
  for (const char* type : {"bpe", "wordpiece"}) {
    const auto expected = learned("a.jsonl", "", type);
    EXPECT_EQ(learned("a.jsonl.gz", "", type), expected);
    EXPECT_EQ(learned("wiki_00 --workers 3", "", type), expected);
    EXPECT_EQ(learned("a.jsonl.gz --format jsonl", "", type), expected);
    EXPECT_EQ(learned("'a.js*l'", "", type), expected);
    EXPECT_EQ(learned("-", read("a.jsonl"), type), expected);
    EXPECT_EQ(learned("/dev/stdin", read("a.jsonl.gz"), type), expected);
    const auto text = learned("a.txt", "", type);
    EXPECT_EQ(learned("x", "", type), text);
    EXPECT_EQ(learned("-", read("a.txt"), type), text);
    EXPECT_EQ(learned("a.txt --document-separator '\n'", "", type), expected);
    EXPECT_NE(learned("a.jsonl --format text", "", type), expected);
    EXPECT_THAT(learned("a.jsonl --json-keys b", "", type), HasSubstr("zzzz"));
    EXPECT_THAT(expected, Not(HasSubstr("zzzz")));
  }
}

TEST_F(TrainTokenizerTest, Refusals) {
  write_texts();
  const std::string rest = " --vocab-size 300 --output tok";
  expect_error("train-tokenizer --input a.jsonl --json-keys c" + rest, 65,
               "a.jsonl:1: the object has no key \"c\"");
  expect_error("train-tokenizer --input a.txt --json-keys c" + rest, 78, "--json-keys");
  expect_error("train-tokenizer --input none" + rest, 66, "none");
  expect_error("train-tokenizer --input ." + rest, 66, "is a directory");
  expect_error("train-tokenizer --input a.txt --lower-case" + rest, 64, "--type wordpiece");
  write("b.txt", read("a.jsonl"));
  expect_error("train-tokenizer --input b.txt" + rest, 78, "--format jsonl");
  write("u", std::string("\xff\xfe"
                         "a\0",
                         4));
  expect_error("train-tokenizer --input u" + rest, 65, "UTF-16");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "tok"));
}

// The work has not begun: no input is looked for.
TEST_F(TrainTokenizerTest, WhatIsThereIsReplacedOnlyOnDemand) {
  write_texts();
  std::filesystem::create_directory(directory_ / "tok");
  const std::string words = "train-tokenizer --vocab-size 300 --output tok ";
  for (const auto& [name, type] :
       {std::pair{"vocab.json", "bpe"}, {"merges.txt", "bpe"}, {"vocab.txt", "wordpiece"}}) {
    const std::string path = std::string("tok/") + name;
    const std::string typed = words + "--type " + type;
    write(path, "what was there");
    expect_error(typed + " --input none", 78,
                 "--output " + path + ": is there already: give --overwrite to replace it");
    EXPECT_EQ(read(path), "what was there");
    EXPECT_EQ(run(typed + " --input a.txt --overwrite").status, 0);
    EXPECT_NE(read(path), "what was there");
    std::filesystem::remove(directory_ / "tok/vocab.json");
    std::filesystem::remove(directory_ / "tok/merges.txt");
  }
}

}  // namespace
}  // namespace phalanx
