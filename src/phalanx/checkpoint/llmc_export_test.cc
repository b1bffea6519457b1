#include "phalanx/checkpoint/llmc_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/checkpoint/llmc_import.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;

// Longest sequence 3, vocabulary 5 of 128, 2 layers, 2 heads of 2, 4 channels.
constexpr LlmcConfig kConfig{.dtype = DType::kF32,
                             .max_sequence = 3,
                             .vocabulary = 5,
                             .layers = 2,
                             .heads = 2,
                             .channels = 4,
                             .padded_vocabulary = 128};
constexpr std::int64_t kParameters = (128 + 3) * 4 + 2 * (12 * 4 * 4 + 13 * 4) + 2 * 4;

std::string header(std::vector<std::int32_t> fields) {
  fields.resize(256);
  return raw(fields);
}

// Parameter i of the file is `first` + i; padded rows are zero.
template <typename T>
std::string model_bytes(std::int32_t version, const std::function<T(std::int64_t)>& value) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < kParameters; ++i) {
    values.push_back(i >= 5 * 4 && i < 128 * 4 ? T{} : value(i));
  }
  return header({20240326, version, 3, 5, 2, 2, 4, 128}) + raw(values);
}
std::string model_f32() {
  // With bits that bf16 has not.
  return model_bytes<float>(3, [](std::int64_t i) { return 1.0F + 1e-4F * static_cast<float>(i); });
}
std::string model_bf16() {
  return model_bytes<std::uint16_t>(
      5, [](std::int64_t i) { return static_cast<std::uint16_t>(0x3f80 + i); });
}
std::string token_bytes(const std::vector<std::uint16_t>& tokens) {
  return header({20240520, 1, static_cast<std::int32_t>(tokens.size())}) + raw(tokens);
}

class LlmcExportTest : public testing::Test {
 protected:
  std::filesystem::path path(std::string_view name) const { return directory_.path() / name; }
  // A checkpoint of the model file's bytes.
  CheckpointReader imported(const std::string& bytes, std::string_view name = "checkpoint") const {
    put_file(path("in.bin"), bytes);
    put_file(path("in.tokens"), token_bytes({1, 2}));
    import_llmc(path("in.bin"), path("in.tokens"), path(name),
                [](std::span<const std::uint16_t>) {});
    return CheckpointReader::open(path(name) / "checkpoint");
  }
  std::string exported(const CheckpointReader& reader, const LlmcConfig& config) const {
    {
      DurableFile file(path("out.bin"));
      export_llmc_model(reader, config, file);
      file.commit();
    }
    return read_file(path("out.bin"));
  }
  // A checkpoint of these tensors of one value each.
  CheckpointReader saved(const std::vector<std::pair<std::string, Shape>>& tensors) const {
    Arena arena("tensors", 1 << 16);
    std::vector<GlobalTensor> all;
    for (const auto& [name, shape] : tensors) {
      all.push_back(whole_tensor(name, filled(arena, shape, 1)));
    }
    std::filesystem::remove_all(path("saved"));
    save_checkpoint({.directory = path("saved")}, example_manifest(1), all);
    return CheckpointReader::open(path("saved"));
  }
  std::string refusal(const CheckpointReader& reader) const {
    try {
      exported(reader, kConfig);
    } catch (const ConfigError& error) {
      EXPECT_FALSE(std::filesystem::exists(path("out.bin")));
      return error.what();
    }
    return "no error";
  }

 private:
  TemporaryDirectory directory_{"llmc_export"};
};

TEST_F(LlmcExportTest, WhatWasImportedIsTheSameFileAgain) {
  EXPECT_EQ(exported(imported(model_f32()), kConfig), model_f32());
  LlmcConfig bf16 = kConfig;
  bf16.dtype = DType::kBF16;
  EXPECT_EQ(exported(imported(model_bf16(), "bf16"), bf16), model_bf16());
}

TEST_F(LlmcExportTest, WhatWasExportedIsTheSameCheckpointAgain) {
  const auto first = imported(model_f32());
  const auto second = imported(exported(first, kConfig), "second");
  EXPECT_EQ(to_json(digest_checkpoint(first)), to_json(digest_checkpoint(second)));
}

TEST_F(LlmcExportTest, ConvertsToTheNearest) {
  const auto as_f32 = exported(imported(model_bf16()), kConfig);
  const auto float_at = [&](std::int64_t i) {
    float value = 0;
    std::memcpy(&value, as_f32.data() + 1024 + 4 * i, 4);
    return value;
  };
  EXPECT_EQ(float_at(0), 1.0F);
  EXPECT_EQ(float_at(1), 1.0078125F);
  EXPECT_EQ(as_f32.size(), 1024U + 4 * kParameters);

  LlmcConfig bf16 = kConfig;
  bf16.dtype = DType::kBF16;
  // Back without a loss.
  EXPECT_EQ(exported(imported(as_f32, "f32"), bf16), model_bf16());
  const auto narrowed = exported(imported(model_f32(), "narrow"), bf16);
  const auto bits_at = [&](std::int64_t i) {
    std::uint16_t value = 0;
    std::memcpy(&value, narrowed.data() + 1024 + 2 * i, 2);
    return value;
  };
  EXPECT_EQ(bits_at(0), 0x3f80);
  // 1.0512 is between 1.046875 (0x3f86) and 1.0546875, which is nearer.
  EXPECT_EQ(bits_at(128 * 4), 0x3f87);
}

TEST_F(LlmcExportTest, RefusesWhatTheFileHasNoPlaceFor) {
  std::vector<std::pair<std::string, Shape>> tensors;
  Arena planning = Arena::planning("planning");
  for (const LlmcTensor& stored : llmc_tensors(kConfig)) {
    for (std::int64_t layer = 0; layer < (stored.is_stacked() ? 2 : 1); ++layer) {
      const auto tensor =
          llmc_global_tensor(kConfig, stored, layer, planning.allocate(DType::kF32, stored.shape));
      tensors.emplace_back(tensor.name, tensor.global_shape);
    }
  }
  EXPECT_EQ(refusal(saved(tensors)), "no error");
  std::filesystem::remove(path("out.bin"));

  auto more = tensors;
  more.emplace_back("output_layer.weight", Shape{5, 4});
  EXPECT_THAT(refusal(saved(more)), HasSubstr("output_layer.weight has no place"));
  more.back().first = "decoder.layers.2.mlp.linear_fc1.bias";
  EXPECT_THAT(refusal(saved(more)), HasSubstr("linear_fc1.bias has no place"));
  // The optimizer's have none, and nobody asks.
  more.back().first = "optimizer.exp_avg.output_layer.weight";
  EXPECT_EQ(refusal(saved(more)), "no error");
  std::filesystem::remove(path("out.bin"));

  const auto without = [&](std::size_t i) {
    auto fewer = tensors;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    return refusal(saved(fewer));
  };
  EXPECT_THAT(without(1), HasSubstr("no tensor embedding.position_embeddings.weight"));
  EXPECT_THAT(without(tensors.size() - 1), HasSubstr("no tensor decoder.final_layernorm.bias"));
  auto other = tensors;
  other[1].second = Shape{4, 4};
  EXPECT_THAT(refusal(saved(other)), AllOf(HasSubstr("position_embeddings.weight is f32 [4, 4]"),
                                           HasSubstr("llm.c's is [3, 4]")));
  EXPECT_EQ(llmc_vocabulary(saved(tensors)), 5);
  EXPECT_THROW(llmc_vocabulary(saved({{"decoder.final_layernorm.bias", {4}}})), ConfigError);
}

TEST_F(LlmcExportTest, Tokens) {
  const std::vector<std::int32_t> first = {4, 0, 1};
  const std::vector<std::int32_t> second = {65535};
  LlmcTokenWriter writer(path("out.tokens"), 4, 70000);
  writer.add(first);
  EXPECT_FALSE(std::filesystem::exists(path("out.tokens")));
  EXPECT_THROW(writer.commit(), InternalError);
  writer.add(second);
  writer.commit();
  EXPECT_EQ(read_file(path("out.tokens")), token_bytes({4, 0, 1, 65535}));

  const auto refused = [&](std::int64_t vocabulary, std::int32_t id) -> std::string {
    return error_of<DataError>([&] {
      LlmcTokenWriter other(path("other.tokens"), 4, vocabulary);
      other.add(first);
      other.add(std::vector<std::int32_t>{id});
    });
  };
  EXPECT_THAT(refused(5, 5), HasSubstr("token 3 is 5: ids are from 0 to 4, the model's"));
  EXPECT_THAT(refused(5, -1), HasSubstr("token 3 is -1"));
  EXPECT_THAT(refused(70000, 65536), HasSubstr("from 0 to 65535 in a token file"));
  EXPECT_THROW(LlmcTokenWriter(path("other.tokens"), 0, 5), DataError);
  EXPECT_THROW(LlmcTokenWriter(path("other.tokens"), std::int64_t{1} << 31, 5), DataError);
  EXPECT_FALSE(std::filesystem::exists(path("other.tokens")));
}

}  // namespace
}  // namespace phalanx
