#include "phalanx/saving/run_inputs.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

using RunInputsTest = RunTest;

TEST_F(RunInputsTest, ARunGoesOnWithTheDataItBeganWith) {
  TrainConfig c = config("run");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  c.run.exit_interval = 0;
  // Another dataset under the old name: one document differs by a token's value, then by one more
  // token.
  write_dataset("data", 3);
  const auto bin = [&] { return fs::file_size(path("data.bin")); };
  const auto length = bin();
  std::ofstream(path("data.bin"), std::ios::app | std::ios::binary) << "xx";
  ASSERT_EQ(bin(), length + 2);
  EXPECT_THAT(
      error_of<ConfigError>([&] { pretrain(c); }),
      testing::AllOf(HasSubstr("--data-path"), HasSubstr("data.bin"), HasSubstr("iteration 3")));
  // The same data elsewhere is the same data.
  write_dataset("moved", -1);
  c.data.data_path = {path("moved")};
  train(c);
}

// A file with changed content but the same size and index; the checkpoint has its block digests.
TEST_F(RunInputsTest, AChangedBlockOfDataIsNamed) {
  TrainConfig c = config("run");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  c.run.exit_interval = 0;
  const auto last = fs::file_size(path("data.bin")) - 1;
  {
    std::fstream file(path("data.bin"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(last - 1));
    const int value = file.get();
    file.seekp(static_cast<std::streamoff>(last - 1));
    file.put(static_cast<char>(value > 0 ? value - 1 : 1));  // still an id of the vocabulary
  }
  EXPECT_THAT(error_of<ConfigError>([&] { pretrain(c); }),
              AllOf(HasSubstr("--data-path"), HasSubstr("data.bin: bytes 0 to "),
                    HasSubstr("iteration 3"), HasSubstr("--allow-changed data-path")));
  c.run.allow_changed = {"data-path"};
  train(c);
}

// Missing files are reported before anything is opened, all at once, with their flags.
TEST_F(RunInputsTest, FilesThatAreNotThereAreNamed) {
  TrainConfig c = config("run");
  c.data.data_path = {path("none")};
  c.tokenizer.vocab_file = path("no-vocab");
  EXPECT_THAT(error_of<InputMissingError>([&] { pretrain(c); }),
              AllOf(HasSubstr("--vocab-file: "), HasSubstr("no-vocab: no such"),
                    HasSubstr("--data-path: "), HasSubstr("none.idx: no such")));
  TrainConfig traced = config("run");
  traced.run.trace = path("nowhere/trace.json");
  EXPECT_THROW(pretrain(traced), OutputError);
}

// Opening a named pipe would wait for its writer.
TEST_F(RunInputsTest, WhatIsNoFileIsNamedWithItsFlag) {
  const auto expect = [](const TrainConfig& c, const std::string& flag, const std::string& fault) {
    EXPECT_THAT(error_of<InputMissingError>([&] { pretrain(c); }),
                AllOf(HasSubstr(flag + ": "), HasSubstr(fault + ", not a regular file")));
  };
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(path("pipes.idx").c_str(), 0600), 0);
  TrainConfig c = config("run");
  c.data.data_path = {path("pipes")};
  expect(c, "--data-path", "pipes.idx: is a named pipe");
  c.data.data_path.clear();
  c.data.data_args_path = path("pipe");
  expect(c, "--data-args-path", "is a named pipe");
  c.data.data_args_path.clear();
  c.data.per_split_data_args_path = "/dev/zero";
  expect(c, "--per-split-data-args-path", "is a device");
  c = config("run");
  c.tokenizer.vocab_file = path("");
  expect(c, "--vocab-file", "is a directory");
  c.tokenizer.vocab_file.clear();
  c.run.answer_prompts = path("pipe");
  expect(c, "--answer-prompts", "is a named pipe");
}

TEST_F(RunInputsTest, AnIndexIsComparedByItsBytes) {
  const TrainConfig c = config("run");
  const RunInputs inputs = run_inputs(c);
  ASSERT_EQ(inputs.files.size(), 2U);
  EXPECT_TRUE(inputs.files[0].xxh3);
  EXPECT_FALSE(inputs.files[1].xxh3);
  Manifest manifest;
  manifest.input_files = inputs.files;
  check_inputs(inputs, manifest, c.run);
  *manifest.input_files[0].xxh3 ^= 1;
  EXPECT_THROW(check_inputs(inputs, manifest, c.run), ConfigError);
  // Entries that an older checkpoint does not have are not compared.
  manifest.input_files.clear();
  check_inputs(inputs, manifest, c.run);
}

TEST_F(RunInputsTest, TokenizerFilesAreKeptAndCompared) {
  std::ofstream(path("vocab")) << "{}";
  std::ofstream(path("merges")) << "a b\n";
  TrainConfig c = with_flags(config(""), "--data-path");
  c.tokenizer.vocab_file = path("vocab");
  c.tokenizer.merge_file = path("merges");
  const RunInputs inputs = run_inputs(c);
  ASSERT_EQ(inputs.copies.size(), 2U);
  EXPECT_EQ(inputs.copies[0].name, "vocab.json");
  EXPECT_EQ(inputs.copies[1].bytes, "a b\n");
  Manifest manifest;
  manifest.input_files = inputs.files;
  std::ofstream(path("merges")) << "a c\n";
  EXPECT_THAT(error_of<ConfigError>([&] { check_inputs(run_inputs(c), manifest, c.run); }),
              HasSubstr("--merge-file"));
}

TEST_F(RunInputsTest, FilesOfOneDirectoryAreComparedEachWithItself) {
  TrainConfig c = with_flags(config(""), "--data-path --tokenizer-type HuggingFaceTokenizer");
  c.tokenizer.tokenizer_model = path("model");
  std::filesystem::create_directory(path("model"));
  std::ofstream(path("model/tokenizer.json")) << "{}";
  std::ofstream(path("model/tokenizer_config.json")) << R"({"eos_token": "</s>"})";
  const RunInputs inputs = run_inputs(c);
  ASSERT_EQ(inputs.copies.size(), 2U);
  EXPECT_EQ(inputs.copies[0].name, "tokenizer.json");
  Manifest manifest;
  manifest.input_files = inputs.files;
  check_inputs(run_inputs(c), manifest, c.run);
  std::ofstream(path("model/tokenizer_config.json")) << R"({"eos_token": "<s>"})";
  EXPECT_THROW(check_inputs(run_inputs(c), manifest, c.run), ConfigError);
}

}  // namespace
}  // namespace phalanx
