// What import refuses: with which error, and what the message names.

#include <gmock/gmock.h>

#include "phalanx/base/test_support.h"
#include "phalanx/hugging_face/import.h"
#include "phalanx/hugging_face/test_support.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ImportRefuses : public testing::Test {
 protected:
  ImportRefuses() : folder_(directory_.path() / "in", tiny_llama()) {}

  template <typename Fault>
  void expect_fault(const std::string& mention, bool ignore_unexpected = false) const {
    EXPECT_THAT(error_of<Fault>([&] { const Import model(folder_.path, ignore_unexpected); }),
                HasSubstr(mention));
  }

  TemporaryDirectory directory_{"hugging_face_refusals"};
  TinyFolder folder_;
};

TEST_F(ImportRefuses, FilesThatAreNotThere) {
  expect_fault<InputMissingError>("no such folder");
  fs::create_directories(folder_.path);
  expect_fault<InputMissingError>("config.json");
  folder_.write_config();
  expect_fault<InputMissingError>("model.safetensors");
  put_file(folder_.path / "pytorch_model.bin", "\x80\x02");
  for (const char* word :
       {"pytorch_model.bin", "safetensors", "save_pretrained", "tools/convert-pickle"}) {
    expect_fault<InputMissingError>(word);
  }
  folder_.write_shards(2, [](Json&) {});
  fs::remove(folder_.path / "part-1.safetensors");
  expect_fault<InputMissingError>("part-1.safetensors");
  folder_.path = folder_.path / "pytorch_model.bin";
  expect_fault<InputMissingError>("save_pretrained");
}

TEST_F(ImportRefuses, TensorsThatDoNotFitTheConfiguration) {
  const TinyFolder whole = folder_;
  const auto spoil = [&](const auto& change, const std::string& mention) {
    folder_ = whole;
    change();
    folder_.write();
    expect_fault<DataError>(mention);
  };
  spoil([&] { folder_.remove("model.norm.weight"); }, "model.norm.weight");
  spoil([&] { folder_.remove("lm_head.weight"); }, "lm_head.weight");
  spoil([&] { folder_.find("model.norm.weight").name = "model.norm.wait"; }, "model.norm.weight");
  spoil(
      [&] {
        folder_.tensors.push_back({"extra", DType::kF32, {1}, std::string(4, '\0')});
      },
      "extra");
  spoil([&] { folder_.find("lm_head.weight").shape = {16, 32}; }, "lm_head.weight");
  spoil([&] { folder_.find("lm_head.weight").dtype = DType::kI32; }, "lm_head.weight");
  spoil([&] { folder_.config["num_hidden_layers"] = 1; }, "model.layers.1");
  spoil([&] { folder_.config["num_hidden_layers"] = 3; }, "model.layers.2");
  // Tied, and the head another table.
  spoil([&] { folder_.config["tie_word_embeddings"] = true; }, "tie_word_embeddings");
}

TEST_F(ImportRefuses, SurplusUnlessItIsToBeIgnored) {
  folder_.tensors.push_back({"extra", DType::kI64, {1}, std::string(8, '\0')});
  folder_.write();
  expect_fault<DataError>("--ignore-unexpected");
  EXPECT_THAT(Import(folder_.path, true).dropped(), testing::ElementsAre("extra"));
}

TEST_F(ImportRefuses, TwoNamesOfOneTensor) {
  folder_ = TinyFolder(folder_.path, tiny_gpt2());
  TinyTensor again = folder_.find("transformer.wte.weight");
  again.name = "wte.weight";
  folder_.tensors.push_back(again);
  folder_.write();
  expect_fault<DataError>("comes twice");
}

TEST_F(ImportRefuses, AnIndexThatEscapesOrLies) {
  const auto spoil = [&](const auto& edit, const std::string& mention) {
    folder_.write_shards(2, edit);
    expect_fault<DataError>(mention);
  };
  const std::string norm = "model.norm.weight";
  for (const char* name : {"../part-0.safetensors", "/etc/passwd", "..", "", "a/b"}) {
    spoil([&](Json& index) { index["weight_map"][norm] = name; }, norm);
  }
  spoil([&](Json& index) { index["weight_map"][norm] = 3; }, norm);
  spoil([&](Json& index) { index["weight_map"].erase(norm); }, norm);
  spoil([&](Json& index) { index["weight_map"]["ghost"] = "part-0.safetensors"; }, "ghost");
  spoil(
      [&](Json& index) {
        const bool is_first = index["weight_map"][norm] == "part-0.safetensors";
        index["weight_map"][norm] = is_first ? "part-1.safetensors" : "part-0.safetensors";
      },
      norm);
  spoil([](Json& index) { index.erase("weight_map"); }, "weight_map");
  spoil([](Json& index) { index["weight_map"] = Json::object(); }, "weight_map");
  spoil([](Json& index) { index = Json::array(); }, "index.json");
  // A wrong sum is said, and no more.
  folder_.write_shards(2, [](Json&) {});
  EXPECT_EQ(Import(folder_.path).parameters(), 4944);
}

TEST_F(ImportRefuses, TheSingleFileWins) {
  folder_.write();
  put_file(folder_.path / kIndexName, "no JSON");
  EXPECT_EQ(Import(folder_.path).folder().files().size(), 1U);
}

TEST_F(ImportRefuses, MalformedFiles) {
  folder_.write();
  put_file(folder_.path / kWeightsName, "too short");
  expect_fault<DataError>("model.safetensors");
  put_file(folder_.path / kConfigName, "{");
  expect_fault<DataError>("config.json");
  put_file(folder_.path / kConfigName, std::string(100, '['));
  expect_fault<DataError>("config.json");
}

}  // namespace
}  // namespace phalanx::hugging_face
