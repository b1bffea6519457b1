// Which files of a folder are kept.

#include "phalanx/hugging_face/kept_files.h"

#include <gmock/gmock.h>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class KeptFilesTest : public testing::Test {
 protected:
  KeptFilesTest() { fs::create_directories(folder_); }

  static std::vector<std::string> names(const KeptFiles& kept) {
    std::vector<std::string> names;
    for (const InputCopy& copy : kept.files) names.push_back(copy.name);
    return names;
  }

  TemporaryDirectory directory_{"kept_files"};
  // As in the cache of the hub.
  fs::path folder_ = directory_.path() / "snapshots" / "1234";
};

TEST_F(KeptFilesTest, ByTheirNames) {
  for (const char* name :
       {"chat_template.jinja", "special_tokens_map.json", "added_tokens.json", "merges.txt",
        "spiece.model", "preprocessor_config.json", "qwen.tiktoken", "vocab.bpe"}) {
    EXPECT_TRUE(is_kept_name(name)) << name;
  }
  for (const char* name : {"config.json",
                           "generation_config.json",
                           "README.md",
                           "readme",
                           "LICENSE",
                           "LICENSE.txt",
                           ".gitattributes",
                           ".git",
                           "model.safetensors",
                           "MODEL.SafeTensors",
                           "pytorch_model.bin",
                           "model.safetensors.index.json",
                           "pytorch_model.bin.index.json",
                           "tf_model.h5",
                           "flax_model.msgpack",
                           "model.gguf",
                           "model.onnx",
                           "optimizer.pt",
                           "trainer_state.json",
                           "adapter_config.json",
                           "modeling_own.py",
                           "picture.png",
                           "manifest.json",
                           "Manifest.JSON",
                           "a b.json",
                           "../up.json",
                           "a/b.json",
                           "",
                           "x.tmp.json",
                           "\xc3\xa9.json"}) {
    EXPECT_FALSE(is_kept_name(name)) << name;
  }
  EXPECT_TRUE(is_kept_name(std::string(95, 'n') + ".json"));
  EXPECT_FALSE(is_kept_name(std::string(96, 'n') + ".json"));
}

TEST_F(KeptFilesTest, EveryByteOfThem) {
  const std::string bytes("{%- \0\xff\r\n -%}", 12);
  put_file(folder_ / "chat_template.jinja", bytes);
  put_file(folder_ / "added_tokens.json", "{\"<x>\":  3}");
  put_file(folder_ / "tokenizer.json", "{}");
  put_file(folder_ / "README.md", "A model.");
  fs::create_directory(folder_ / "original");
  const KeptFiles kept = read_kept_files(folder_, {"tokenizer.json"});
  EXPECT_THAT(names(kept), ElementsAre("added_tokens.json", "chat_template.jinja"));
  EXPECT_EQ(kept.files[1].bytes, bytes);
  EXPECT_THAT(kept.left_out, IsEmpty());

  Manifest manifest;
  manifest.input_files.push_back(describe_kept_file(folder_, kept.files[1]));
  manifest.input_files.push_back(describe_input_file("--input", folder_ / "tokenizer.json"));
  manifest.input_files.push_back(describe_input_copy("--vocab-file", folder_ / "vocab.txt",
                                                     {.name = "vocab.txt", .bytes = {}}));
  const auto found = kept_files_of(manifest.input_files);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].copy, "chat_template.jinja");
}

// Links may stay in the folder or lead to the blobs of the hub's cache, as all files of it do.
TEST_F(KeptFilesTest, LinksOutOfTheFolderAreNotFollowed) {
  fs::create_directory(directory_.path() / "blobs");
  put_file(directory_.path() / "blobs" / "5678", "blob");
  put_file(directory_.path() / "secret.json", "secret");
  put_file(folder_ / "a.json", "a");
  fs::create_symlink("a.json", folder_ / "b.json");
  fs::create_symlink("../../blobs/5678", folder_ / "c.json");
  fs::create_symlink("../../secret.json", folder_ / "d.json");
  fs::create_symlink("nowhere", folder_ / "e.json");
  const KeptFiles kept = read_kept_files(folder_, {});
  EXPECT_THAT(names(kept), ElementsAre("a.json", "b.json", "c.json"));
  EXPECT_EQ(kept.files[2].bytes, "blob");
  ASSERT_EQ(kept.left_out.size(), 1U);
  EXPECT_EQ(kept.left_out[0].name, "d.json");
  EXPECT_THAT(kept.left_out[0].reason, HasSubstr("out of the folder"));
}

TEST_F(KeptFilesTest, NotMoreThanALimit) {
  put_file(folder_ / "large.json", "");
  fs::resize_file(folder_ / "large.json", kMostKeptBytes + 1);
  for (std::size_t i = 0; i < kMostKeptFiles + 2; ++i) {
    put_file(folder_ / ("x" + std::to_string(100 + i) + ".json"), "{}");
  }
  const KeptFiles kept = read_kept_files(folder_, {});
  EXPECT_EQ(kept.files.size(), kMostKeptFiles);
  ASSERT_EQ(kept.left_out.size(), 3U);
  EXPECT_THAT(kept.left_out[0].reason, HasSubstr("larger than"));
  EXPECT_EQ(kept.left_out[2].name, "x165.json");
}

TEST_F(KeptFilesTest, APointerIsNoFile) {
  put_file(folder_ / "vocab.json", "version https://git-lfs.github.com/spec/v1\nsize 12\n");
  EXPECT_THROW(read_kept_files(folder_, {}), InputMissingError);
}

}  // namespace
}  // namespace phalanx::hugging_face
