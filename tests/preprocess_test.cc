// preprocess-data and dataset as they are called: pipes, signals, full disks, JSON.

#include <gmock/gmock.h>

#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using ::testing::HasSubstr;

class PreprocessProgramTest : public ProgramTest {
 protected:
  // Documents of numbers, which are their own ids.
  static std::string lines(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += fmt::format("{{\"text\": \"{} {}\", \"n\": [1, {{}}]}}\n", i % 90, i % 7);
    }
    return text;
  }
  static std::string numbers() { return "--tokenizer-type NullTokenizer --vocab-size 99 "; }
  void run_script() const {
    const auto command =
        fmt::format("cd '{}' && bash run.sh > /dev/null 2>stderr", directory_.string());
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const auto name = entry.path().filename().string();
      if (name != "stdin" && name != "stdout" && name != "stderr") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(PreprocessProgramTest, FilesPipesAndPatternsAreTheSame) {
  const auto text = lines(1000);
  write("a.jsonl", text.substr(0, text.find("\n{", 5000) + 1));
  write("b.jsonl", text.substr(text.find("\n{", 5000) + 1));
  const auto same = [&](const std::string& words, const std::string& input = "") {
    const auto output = run(
        "preprocess-data --append-eod --overwrite --output-prefix d " + numbers() + words, input);
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_THAT(output.err, HasSubstr("1,000 documents"));
    EXPECT_EQ(output.out, "");
    return read("d_text_document.idx") + read("d_text_document.bin");
  };
  const auto expected = same("--input a.jsonl b.jsonl");
  EXPECT_EQ(same("--input '?.jsonl' --workers 3 --partitions 4"), expected);
  EXPECT_EQ(same("--input -", text), expected);
  EXPECT_EQ(
      same("--input - b.jsonl --keep-sequential-samples --dataset-impl mmap", read("a.jsonl")),
      expected);
  EXPECT_THAT(files(), ::testing::ElementsAre("a.jsonl", "b.jsonl", "d_text_document.bin",
                                              "d_text_document.idx"));
}

TEST_F(PreprocessProgramTest, Refusals) {
  write("a.jsonl", "{\"text\": \"1 2\"}\n{\"text\": \"x\"}\n");
  const std::string rest = " --output-prefix d " + numbers();
  expect_error("preprocess-data --input a.jsonl" + rest, 65, "a.jsonl:2: ");
  expect_error("preprocess-data --input ." + rest, 66, "is a directory");
  expect_error("preprocess-data --input 'b*.jsonl'" + rest, 66, "b*.jsonl");
  expect_error("preprocess-data --input a.jsonl --find-optimal-num-workers" + rest, 78,
               "--workers is all usable cores");
  expect_error("preprocess-data --input a.jsonl --dataset-impl lazy" + rest, 78, "lazy");
  expect_error("preprocess-data --input a.jsonl --keep-newlines" + rest, 78, "--split-sentences");
  expect_error("preprocess-data --input a.jsonl --lang french" + rest, 78, "japanese");
  EXPECT_THAT(files(), ::testing::ElementsAre("a.jsonl"));
}

// The work has not begun: no input is looked for.
TEST_F(PreprocessProgramTest, WhatIsThereIsReplacedOnlyOnDemand) {
  write("a.jsonl", "{\"text\": \"1 2\", \"b\": \"3\"}\n");
  for (const char* name : {"d_text_document.idx", "d_b_document.bin", "d_text_sentence.bin"}) {
    write(name, "what was there");
    const std::string words =
        std::string("preprocess-data --json-keys text b --output-prefix d ") +
        (name == std::string("d_text_sentence.bin") ? "--split-sentences " : "") + numbers();
    const std::string refusal =
        std::string(" ") + name + ": is there already: give --overwrite to replace it";
    expect_error(words + " --input a.jsonl", 78, refusal);
    expect_error(words + " --input none.jsonl", 78, refusal);
    EXPECT_EQ(read(name), "what was there");
    EXPECT_EQ(run(words + " --input a.jsonl --overwrite").status, 0);
    expect_error(words + " --input a.jsonl", 78, "is there already");
    for (const auto& file : files()) {
      if (file != "a.jsonl") std::filesystem::remove(directory_ / file);
    }
  }
}

TEST_F(PreprocessProgramTest, ContentTellsTheFormat) {
  write("wiki_00", "{\"text\": \"1 2\"}\n{\"text\": \"3\"}\n");
  write("a.txt", read("wiki_00"));
  write("prose", "1 2\n3\n");
  const std::string rest = " --overwrite --output-prefix d " + numbers();
  const auto documents = [&](const std::string& words, const std::string& input = "") {
    const auto output = run("preprocess-data --input " + words + rest, input);
    EXPECT_EQ(output.status, 0) << output.err;
    return run_json("dataset info d_text_document --json").at("documents").get<int>();
  };
  EXPECT_EQ(documents("wiki_00"), 2);
  EXPECT_EQ(documents("prose"), 1);
  EXPECT_EQ(documents("-", read("wiki_00")), 2);
  EXPECT_EQ(documents("-", read("prose")), 1);
  EXPECT_EQ(documents("/dev/stdin", read("wiki_00")), 2);
  expect_error("preprocess-data --input a.txt" + rest, 78, "give --format jsonl");
  EXPECT_EQ(documents("a.txt --format jsonl"), 2);
  write("run.sh",
        fmt::format("'{0}' preprocess-data --input <(cat wiki_00) <(gzip < wiki_00) {1} && "
                    "'{0}' dataset info d_text_document --json > info",
                    program_path(), rest));
  run_script();
  EXPECT_EQ(Json::parse(read("info")).at("documents"), 4) << read("stderr");
}

TEST_F(PreprocessProgramTest, TextThatIsNotUtf8IsToldAsWhatItIs) {
  const std::string rest = " --overwrite --output-prefix d " + numbers();
  write("u", std::string("\xff\xfe{\0\"\0", 6));
  expect_error("preprocess-data --input u" + rest, 65, "u: UTF-16");
  write("r.jsonl", "{\"text\": \"1\"}\r{\"text\": \"2\"}\r");
  expect_error("preprocess-data --input r.jsonl" + rest, 65, "carriage returns alone");
  write("l.jsonl", "{\"text\": \"1\"}\n{\"text\": \"\xe9\"}\n");
  expect_error("preprocess-data --input l.jsonl" + rest, 65, "l.jsonl:2: not UTF-8");
  write("h.jsonl", "{\"text\": \"1\"}\n{\"text\": \"\\ud800\"}\n");
  expect_error("preprocess-data --input h.jsonl" + rest, 65, "h.jsonl:2: half of a surrogate pair");
  write("b.txt",
        "\xef\xbb\xbf"
        "1 2");
  EXPECT_EQ(run("preprocess-data --input b.txt" + rest).status, 0);
}

TEST_F(PreprocessProgramTest, AFullDiskKeepsWhatWasThere) {
  write("a.jsonl", lines(30'000));
  write("d_text_document.bin", "what was there");
  const auto output = run_between(
      "ulimit -f 20",
      "preprocess-data --input a.jsonl --output-prefix d --overwrite --workers 2 " + numbers(), "");
  EXPECT_EQ(output.status, 73) << output.err;
  EXPECT_THAT(output.err, HasSubstr("d_text_document.bin"));
  EXPECT_EQ(read("d_text_document.bin"), "what was there");
  EXPECT_THAT(files(), ::testing::ElementsAre("a.jsonl", "d_text_document.bin"));
}

// The reader waits for a pipe that stays open.
TEST_F(PreprocessProgramTest, SignalsAreHeardWhileItWaits) {
  for (const auto& [signal, status] : {std::pair{"INT", 130}, {"TERM", 143}}) {
    write("run.sh",
          fmt::format("mkfifo pipe\n"
                      "sleep 60 > pipe & holder=$!\n"
                      "'{}' preprocess-data --input pipe --output-prefix d "
                      "{} < /dev/null & p=$!\n"
                      "until ls d_text_document.bin.tmp.* > /dev/null 2>&1; do sleep 0.01; "
                      "done\n"
                      "sleep 0.1; kill -{} $p; wait $p; echo $? > status\n"
                      "kill $holder; rm pipe\n",
                      program_path(), numbers(), signal));
    run_script();
    EXPECT_EQ(read("status"), fmt::format("{}\n", status)) << read("stderr");
    EXPECT_THAT(read("stderr"), HasSubstr("nothing was written"));
    EXPECT_THAT(files(), ::testing::ElementsAre("run.sh", "status"));
  }
}

// A fault ends it as well, though more could come.
TEST_F(PreprocessProgramTest, AFaultEndsItWhileItWaits) {
  write("run.sh", fmt::format("mkfifo pipe\n"
                              "(yes bad | head -c 3000000; exec sleep 60) > pipe & holder=$!\n"
                              "timeout 30 '{}' preprocess-data --input pipe --format jsonl "
                              "--output-prefix d {} < /dev/null; echo $? > status\n"
                              "kill $holder; rm pipe\n",
                              program_path(), numbers()));
  run_script();
  EXPECT_EQ(read("status"), "65\n") << read("stderr");
  EXPECT_THAT(read("stderr"), HasSubstr("pipe:1: not JSON"));
  EXPECT_THAT(files(), ::testing::ElementsAre("run.sh", "status"));
}

TEST_F(PreprocessProgramTest, DatasetCommandsInJson) {
  write("a.jsonl", "{\"text\": [\"1 2\", \"3\"]}\n{\"text\": \"\"}\n{\"text\": \"4 5 6\"}\n");
  ASSERT_EQ(run("preprocess-data --input a.jsonl --output-prefix one/../d " + numbers()).status,
            73);
  ASSERT_EQ(run("preprocess-data --input a.jsonl --output-prefix d " + numbers()).status, 0);
  const Json info = run_json("dataset info --data-path d_text_document --json");
  EXPECT_EQ(info.at("documents"), 3);
  EXPECT_EQ(info.at("sequences"), 3);
  EXPECT_EQ(info.at("empty_documents"), 1);
  EXPECT_EQ(info.at("most_sequences"), 2);
  const Json head =
      run_json("dataset head --data-path d_text_document --count 9 --tokens 2 --json " + numbers());
  EXPECT_EQ(head.at("documents").size(), 3U);
  const Json first = head.at("documents").at(0);
  EXPECT_EQ(first.at("sequence_count"), 2);
  EXPECT_EQ(first.at("sequences").at(0).at("text"), "1 2");
  const Json last = head.at("documents").at(2).at("sequences").at(0);
  EXPECT_EQ(last.at("tokens"), 3);
  EXPECT_EQ(last.at("ids"), Json({4, 5}));
  const auto text = run("dataset head --data-path d_text_document --first 2");
  EXPECT_EQ(text.out, "document 2\n  [4,5,6]\n");
  const Json check = run_json("dataset check --data-path d_text_document --json");
  EXPECT_EQ(check.at("smallest_id"), 1);
  EXPECT_EQ(check.at("largest_id"), 6);
  std::filesystem::create_directory(directory_ / "all");
  for (const char* name : {"all/a", "all/b"}) {
    for (const char* extension : {".bin", ".idx"}) {
      std::filesystem::copy_file(directory_ / (std::string("d_text_document") + extension),
                                 directory_ / (std::string(name) + extension));
    }
  }
  const Json merged =
      run_json("dataset merge --input all d_text_document --output-prefix merged --json");
  EXPECT_EQ(merged.at("documents"), 9);
  EXPECT_EQ(merged.at("tokens"), 18);
  expect_error("dataset merge --input all --output-prefix merged", 78,
               "merged.bin: is there already: give --overwrite to replace it");
  EXPECT_EQ(run("dataset merge --input all --output-prefix merged --overwrite").status, 0);
  expect_error("dataset head --data-path d_text_document --first 4", 78, "there are 3 documents");
  expect_error("dataset check --data-path d_text_document --vocab-size 6", 65, "is 6, outside");
  write("d_text_document.bin", read("d_text_document.bin") + "x");
  expect_error("dataset check --data-path d_text_document", 65, "the file at byte 13");
}

TEST_F(PreprocessProgramTest, ADatasetIsAWordOrAFlag) {
  write("a.jsonl", "{\"text\": \"1 2 7\"}\n");
  ASSERT_EQ(run("preprocess-data --input a.jsonl --output-prefix d " + numbers()).status, 0);
  for (const char* verb : {"info", "check", "head"}) {
    const std::string words = std::string("dataset ") + verb;
    const auto by_flag = run(words + " --data-path d_text_document");
    const auto by_word = run(words + " d_text_document");
    EXPECT_EQ(by_word.status, 0) << by_word.err;
    EXPECT_EQ(by_word.out, by_flag.out);
    EXPECT_EQ(run(words + " --json d_text_document").status, 0);
    expect_error(words, 64, "PREFIX or --data-path must be given");
    expect_error(words + " d_text_document --data-path other", 64, "give the prefix once");
    expect_error(words + " d_text_document other", 64, "other belongs to no flag");
  }
}

TEST_F(PreprocessProgramTest, TheTokenizerBoundsTheIds) {
  write("a.jsonl", "{\"text\": \"1 2 7\"}\n");
  ASSERT_EQ(run("preprocess-data --input a.jsonl --output-prefix d " + numbers()).status, 0);
  const std::string null = "dataset check d_text_document --tokenizer-type NullTokenizer ";
  EXPECT_EQ(run_json(null + "--vocab-size 7 --json").at("vocab_size"), 8);
  expect_error(null + "--vocab-size 6", 65, "is 7, outside the vocabulary of 7 ids");
  expect_error(null, 78, "--vocab-size is missing");
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  const std::string bert =
      "dataset check d_text_document --tokenizer-type BertWordPieceCase --vocab-file vocab.txt ";
  EXPECT_EQ(run(bert + "--vocab-extra-ids 1").status, 0);
  expect_error(bert + "--vocab-file-only", 65, "outside the vocabulary of 5 ids");
  EXPECT_EQ(run_json("dataset check d_text_document --json").at("vocab_size"), 0);
}

}  // namespace
}  // namespace phalanx
