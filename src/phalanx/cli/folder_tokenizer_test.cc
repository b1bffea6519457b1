#include "phalanx/cli/folder_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/test_support.h"
#include "phalanx/hugging_face/test_support.h"
#include "phalanx/tokenizer/byte_symbols.h"

namespace phalanx {
namespace {

using hugging_face::Json;
using testing::AllOf;
using testing::HasSubstr;

// A vocab.json with merges.txt is read alone: what other files add to it is told.
TEST(FolderTokenizer, TellsTokensThatTheVocabularyHasNot) {
  const TemporaryDirectory directory;
  Json config = hugging_face::tiny_llama();
  config["vocab_size"] = 260;
  const hugging_face::TinyFolder folder(directory.path() / "in", config);
  folder.write();
  Json vocabulary = {{"<|endoftext|>", 256}};
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[symbols_from_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  put_file(folder.path / "vocab.json", vocabulary.dump());
  put_file(folder.path / "merges.txt", "#version: 0.2\n");
  put_file(folder.path / "tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  const hugging_face::Import model(folder.path);
  const auto logged = [&] {
    testing::internal::CaptureStderr();
    EXPECT_EQ(folder_tokenizer(model, true).tokenizer_type, "GPT2BPETokenizer");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(logged(), "");
  put_file(folder.path / "added_tokens.json", R"({"<|im_start|>": 257})");
  put_file(folder.path / "tokenizer_config.json", R"({"add_prefix_space": true})");
  EXPECT_THAT(logged(), AllOf(HasSubstr("<|im_start|>: tokens of its JSON files"),
                              HasSubstr("add_prefix_space is true")));
}

}  // namespace
}  // namespace phalanx
