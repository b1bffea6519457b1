// Errors are values: a code of docs/exit-codes.md and a line for each fault.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "phalanx/library/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

void expect_error(const Answer& answer, int code, const std::string& mention) {
  EXPECT_EQ(answer.code, code) << answer.error;
  EXPECT_THAT(answer.error, HasSubstr(mention));
  EXPECT_EQ(answer.text, "") << mention;
}

std::string with_flag(const std::string& name, const Json& value) {
  Json flags = tiny_shape();
  flags[name] = value;
  return request_of(flags);
}

TEST(Errors, AreOfTheRequest) {
  expect_error(phalanx_plan(nullptr), 64, "the request is NULL");
  expect_error(phalanx_plan("{\"model\": "), 64, "the request: not JSON: line 1");
  expect_error(phalanx_plan("\"\xff\""), 64, "the request: not JSON: line 1");
  expect_error(phalanx_plan(R"({"model": "gpt", "model": "bert"})"), 64,
               R"(the request: the key "model" comes twice)");
  expect_error(phalanx_plan("[1]"), 64, "the request is [1]: give a JSON object");
  expect_error(phalanx_plan(R"({"model": "gpt", "flag": {}})"), 64,
               "the request has \"flag\", which is not known here: it may have arguments, flags, "
               "model");
  expect_error(phalanx_plan(R"({"model": 5})"), 64, "model: 5 is no text");
  expect_error(phalanx_plan(R"({"arguments": "gpt"})"), 64, "arguments: \"gpt\" is no list");
  expect_error(phalanx_plan(R"({"arguments": ["gpt", 2]})"), 64, "arguments[1]: 2 is no text");
  expect_error(phalanx_plan(R"({"model": "gpt", "flags": []})"), 64, "flags: [] is no object");
  expect_error(phalanx_plan(R"({"model": "gpt\u0000"})"), 64, "zero byte");
  expect_error(phalanx_plan(R"({"model": "gtp"})"), 64, "did you mean gpt?");
  expect_error(phalanx_command(R"({"arguments": []})"), 64, "command: give a list of words");
  expect_error(phalanx_command(R"({"command": ["pln"]})"), 64, "did you mean plan?");
}

TEST(Errors, AreOfFlags) {
  expect_error(phalanx_plan(with_flag("num_layer", 2).c_str()), 64,
               "--num-layer: unknown flag; did you mean --num-layers?");
  expect_error(phalanx_plan(with_flag("lr", {{"a", 1}}).c_str()), 64,
               R"(flags: --lr: {"a":1} is neither a text nor a number)");
  expect_error(phalanx_plan(with_flag("data-path", {"a", {"b"}}).c_str()), 64,
               R"(flags: --data-path[1]: ["b"] is neither a text nor a number)");
  expect_error(phalanx_plan(with_flag("data-path", Json::array()).c_str()), 64,
               "flags: --data-path: the list is empty");
  expect_error(phalanx_plan(with_flag("data-path", {"a", "--b"}).c_str()), 64,
               "flags: --data-path[1]: \"--b\" begins as a flag does");
  expect_error(phalanx_plan(with_flag("num_layers", 3).c_str()), 64,
               "flags: num-layers and num_layers are the same flag");
  expect_error(phalanx_plan(with_flag("bf16=true", true).c_str()), 64,
               "flags: \"bf16=true\" is no name of a flag");
  expect_error(phalanx_plan(with_flag("save", true).c_str()), 64, "--save: a value must follow");
  expect_error(phalanx_plan(with_flag("seq-length", "many").c_str()), 64, "--seq-length");
  // A line for each fault.
  Json flags = tiny_shape();
  flags["seq-length"] = 0;
  flags["lr"] = -1;
  const Answer two = phalanx_plan(request_of(flags).c_str());
  EXPECT_EQ(two.code, 78);
  EXPECT_THAT(two.error, HasSubstr("\n"));
}

TEST(Errors, AreOfWhatPrintsNoDocument) {
  expect_error(phalanx_plan(R"({"arguments": ["gpt", "--help"]})"), 64, "--help prints no JSON");
  expect_error(phalanx_plan(with_flag("print-yaml", true).c_str()), 64, "--print-yaml");
  expect_error(phalanx_run(with_flag("print-yaml", true).c_str(), nullptr, nullptr, nullptr), 64,
               "must be given");
}

TEST(Errors, AreOfFiles) {
  const TemporaryDirectory scratch("errors");
  const std::string none = scratch / "none";
  phalanx_checkpoint* checkpoint = nullptr;
  phalanx_dataset* dataset = nullptr;
  phalanx_tokenizer* tokenizer = nullptr;
  expect_error(phalanx_checkpoint_open(none.c_str(), &checkpoint), 66, none);
  expect_error(phalanx_dataset_open(none.c_str(), &dataset), 66, none);
  expect_error(phalanx_tokenizer_open(Json({{"load", none}}).dump().c_str(), &tokenizer), 66, none);
  EXPECT_EQ(checkpoint, nullptr);
  EXPECT_EQ(dataset, nullptr);
  EXPECT_EQ(tokenizer, nullptr);
  for (phalanx_answer* (*function)(const char*) : {phalanx_generate, phalanx_score}) {
    const Json request = {{"load", none}, {"texts", {"1 2"}}};
    const Json prompts = {{"load", none}, {"prompts", {"1 2"}}};
    expect_error(function((function == phalanx_score ? request : prompts).dump().c_str()), 66,
                 none);
  }
  expect_error(phalanx_report(Json({{"directories", {none}}}).dump().c_str()), 66, none);
  expect_error(phalanx_report("{}"), 64, "directories: give a list");
}

TEST(Errors, AreOfNulls) {
  expect_error(phalanx_checkpoint_open(nullptr, nullptr), 64,
               "the place for the checkpoint is NULL");
  phalanx_checkpoint* checkpoint = nullptr;
  expect_error(phalanx_checkpoint_open(nullptr, &checkpoint), 64, "the directory is NULL");
  expect_error(phalanx_checkpoint_tensor(nullptr, "a", nullptr, nullptr), 64,
               "the checkpoint is NULL");
  expect_error(phalanx_dataset_open(nullptr, nullptr), 64, "the place for the dataset is NULL");
  expect_error(phalanx_dataset_sequence(nullptr, 0, nullptr, nullptr), 64, "the dataset is NULL");
  expect_error(phalanx_tokenizer_open("{}", nullptr), 64, "the place for the tokenizer is NULL");
  expect_error(phalanx_tokenize(nullptr, "{}"), 64, "the tokenizer is NULL");
  expect_error(phalanx_detokenize(nullptr, "{}"), 64, "the tokenizer is NULL");
  EXPECT_EQ(phalanx_answer_code(nullptr), 64);
  EXPECT_STREQ(phalanx_answer_text(nullptr), "");
  EXPECT_STREQ(phalanx_answer_error(nullptr), "the answer is NULL");
  phalanx_answer_free(nullptr);
  phalanx_checkpoint_close(nullptr);
  phalanx_dataset_close(nullptr);
  phalanx_tokenizer_close(nullptr);
  phalanx_stop_request(nullptr);
  phalanx_stop_free(nullptr);
}

TEST(Errors, AreOfRuns) {
  const auto run = [](Json flags) {
    return phalanx_run(request_of(flags).c_str(), nullptr, nullptr, nullptr);
  };
  Json flags = tiny_flags("data");
  flags["exit-signal"] = "SIGUSR1";
  expect_error(run(flags), 78, "--exit-signal SIGUSR1: a run inside another program");
  flags = tiny_flags("data");
  flags["load"] = "/nowhere/at/all";
  flags["exit-on-missing-checkpoint"] = true;
  EXPECT_NE(Answer(run(flags)).code, 0);
  flags = tiny_flags("data");
  flags["print-yaml"] = true;
  expect_error(run(flags), 64, "--print-yaml: a run prints nothing");
  expect_error(phalanx_run(R"({"arguments": ["gpt", "--help"]})", nullptr, nullptr, nullptr), 64,
               "--help");
  expect_error(phalanx_command(R"({"command": ["launch", "pretrain", "gpt"]})"), 64,
               "phalanx launch starts processes");
}

}  // namespace
}  // namespace phalanx
