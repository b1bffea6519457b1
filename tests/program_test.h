#pragma once
// The built program in a directory of its own, and a small text to train on.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "tests/paths.h"

namespace phalanx {

struct ProgramOutput {
  int status = 0;
  std::string out;
  std::string err;
};

class ProgramTest : public testing::Test {
 protected:
  using Json = nlohmann::json;

  // `words` go through the shell, in the test's directory.
  ProgramOutput run(const std::string& words, const std::string& input = "") const {
    return run_between("", words, "", input);
  }
  // With commands of the shell before and after.
  ProgramOutput run_between(const std::string& before, const std::string& words,
                            const std::string& after, const std::string& input = "") const {
    write("stdin", input);
    const std::string command =
        fmt::format("cd '{}' || exit 1\n{}\n'{}' {} <stdin >stdout 2>stderr {}",
                    directory_.string(), before, program_path(), words, after);
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read("stdout"), read("stderr")};
  }
  Json run_json(const std::string& words) const {
    const ProgramOutput output = run(words);
    EXPECT_EQ(output.status, 0) << output.err;
    return Json::parse(output.out);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void expect_error(const std::string& words, int status, const std::string& mention) const {
    const ProgramOutput output = run(words);
    EXPECT_EQ(output.status, status) << words << "\n" << output.err;
    EXPECT_NE(output.err.find(mention), std::string::npos) << words << "\n" << output.err;
    EXPECT_EQ(output.out, "") << words;
    // A line for each fault, each with the command that was typed.
    std::istringstream lines(output.err);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(line.starts_with("error: phalanx")) << output.err;
    }
  }

  // A tokenizer and a dataset of a small repetitive text.
  void prepare() const {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += fmt::format("And the {} said unto the {}, behold.\n\n", i % 7, i % 5);
    }
    write("text.txt", text);
    ASSERT_EQ(run("train-tokenizer --input text.txt --vocab-size 300 --output tok").status, 0);
    ASSERT_EQ(run("preprocess-data --input text.txt --split-on-blank-lines --append-eod "
                  "--output-prefix data " +
                  tokenizer())
                  .status,
              0);
  }
  static std::string tokenizer() {
    return "--vocab-file tok/vocab.json --merge-file tok/merges.txt ";
  }
  static std::string training() {
    return "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 "
           "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 4 --lr 1e-2 "
           "--train-iters 8 --lr-decay-iters 8 --lr-warmup-iters 2 --data-path data_text_document "
           "--split 90,5,5 --eval-iters 1 --eval-interval 4 --log-interval 4 --threads-per-rank "
           "2 " +
           tokenizer();
  }

  // The training lines of a run.
  std::vector<Json> metrics(const std::string& save) const {
    std::vector<Json> lines;
    std::istringstream text(read(save + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      Json json = Json::parse(line);
      if (!json.contains("eval")) lines.push_back(std::move(json));
    }
    return lines;
  }

  const TemporaryDirectory temporary_{"program"};
  const std::filesystem::path directory_ = temporary_.path();
};

}  // namespace phalanx
