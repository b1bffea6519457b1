#include "phalanx/checkpoint/llmc_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

// Longest sequence 3, vocabulary 5 of 8, 2 layers, 2 heads of 2, 4 channels.
constexpr std::int64_t kSequence = 3, kVocabulary = 5, kPadded = 8, kLayers = 2, kChannels = 4;
constexpr std::int64_t kPerLayer = 12 * kChannels * kChannels + 13 * kChannels;
constexpr std::int64_t kParameters =
    (kPadded + kSequence) * kChannels + kLayers * kPerLayer + 2 * kChannels;

std::vector<std::int32_t> header(std::vector<std::int32_t> fields) {
  fields.resize(256);
  return fields;
}
std::vector<std::int32_t> model_header() { return header({20240326, 3, 3, 5, 2, 2, 4, 8}); }

// Parameter i of the file has the value i.
std::string model_bytes() {
  std::vector<float> values(kParameters);
  std::iota(values.begin(), values.end(), 0.0F);
  return raw(model_header()) + raw(values);
}
std::string token_bytes(const std::vector<std::uint16_t>& tokens) {
  return raw(header({20240520, 1, static_cast<std::int32_t>(tokens.size())})) + raw(tokens);
}

class LlmcTest : public testing::Test {
 protected:
  std::filesystem::path path(std::string_view name) const { return directory_.path() / name; }
  std::filesystem::path put(std::string_view name, std::string_view bytes) const {
    put_file(path(name), bytes);
    return path(name);
  }
  std::string model_error(std::string_view bytes) const {
    return error_of<DataError>([&] { const LlmcModel model(put("model.bin", bytes)); });
  }
  std::string token_error(std::string_view bytes) const {
    return error_of<DataError>(
        [&] { const LlmcTokens tokens(put("tokens.bin", bytes), kVocabulary); });
  }

 private:
  TemporaryDirectory directory_{"llmc"};
};

std::vector<float> values_of(const CheckpointReader& reader, std::string_view name) {
  const auto* entry = reader.find(name);
  if (entry == nullptr) return {};
  const auto bytes = testing_support::bytes_of(reader, *entry);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(LlmcTest, BecomesACheckpointWithMegatronsNamesAndOrder) {
  std::vector<std::uint16_t> written;
  const auto checkpoint = import_llmc(
      put("model.bin", model_bytes()), put("tokens.bin", token_bytes({4, 0, 1, 4})), path("out"),
      [&](std::span<const std::uint16_t> tokens) { written.assign(tokens.begin(), tokens.end()); });
  EXPECT_THAT(written, ElementsAre(4, 0, 1, 4));
  EXPECT_EQ(checkpoint, path("out") / "checkpoint" / "iter_0000000");

  const auto reader = CheckpointReader::open(path("out") / "checkpoint");
  EXPECT_FALSE(reader.has_optimizer());
  EXPECT_EQ(reader.manifest().iteration, 0);
  EXPECT_EQ(reader.manifest().tensors.size(), 2U + 12 * kLayers + 2);
  EXPECT_EQ(reader.manifest().input_files[1].bytes, 1024 + 8);

  // The first 5 of 8 rows, then the positions after all 8.
  const auto words = values_of(reader, "embedding.word_embeddings.weight");
  EXPECT_EQ(words.size(), 20U);
  EXPECT_EQ(words.back(), 19);
  EXPECT_EQ(reader.find("embedding.word_embeddings.weight")->shape, (Shape{5, 4}));
  EXPECT_EQ(values_of(reader, "embedding.position_embeddings.weight").front(), 32);

  // Offsets in the file, in floats: norms at 44, then QKV weights [2, 12, 4] and biases [2, 12].
  EXPECT_THAT(values_of(reader, "decoder.layers.0.input_layernorm.weight"),
              ElementsAre(44, 45, 46, 47));
  EXPECT_THAT(values_of(reader, "decoder.layers.1.input_layernorm.bias"),
              ElementsAre(56, 57, 58, 59));
  constexpr int kQkv = 60;
  const auto qkv = values_of(reader, "decoder.layers.1.self_attention.linear_qkv.weight");
  ASSERT_EQ(qkv.size(), 48U);
  // Rows of head 0: q 0 1, k 4 5, v 8 9; of head 1: q 2 3, k 6 7, v 10 11.
  const std::vector<int> order = {0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11};
  for (std::size_t row = 0; row < 12; ++row) {
    for (std::size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(qkv[row * 4 + column],
                static_cast<float>(kQkv + 48 + order[row] * 4 + static_cast<int>(column)));
    }
  }
  constexpr int kQkvBias = kQkv + 96;
  const auto bias = values_of(reader, "decoder.layers.0.self_attention.linear_qkv.bias");
  ASSERT_EQ(bias.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(bias[i], static_cast<float>(kQkvBias + order[i]));
  }
  constexpr int kProjection = kQkvBias + 24;
  EXPECT_EQ(values_of(reader, "decoder.layers.1.self_attention.linear_proj.weight").front(),
            kProjection + 16);
  EXPECT_EQ(values_of(reader, "decoder.layers.0.self_attention.linear_proj.bias").front(),
            kProjection + 32);
  constexpr int kNorm2 = kProjection + 40;
  EXPECT_EQ(values_of(reader, "decoder.layers.0.pre_mlp_layernorm.weight").front(), kNorm2);
  EXPECT_EQ(values_of(reader, "decoder.layers.0.pre_mlp_layernorm.bias").front(), kNorm2 + 8);
  constexpr int kFc1 = kNorm2 + 16;
  EXPECT_EQ(values_of(reader, "decoder.layers.1.mlp.linear_fc1.weight").front(), kFc1 + 64);
  EXPECT_EQ(reader.find("decoder.layers.1.mlp.linear_fc1.weight")->shape, (Shape{16, 4}));
  EXPECT_EQ(values_of(reader, "decoder.layers.1.mlp.linear_fc1.bias").front(), kFc1 + 128 + 16);
  constexpr int kFc2 = kFc1 + 160;
  EXPECT_EQ(values_of(reader, "decoder.layers.1.mlp.linear_fc2.weight").front(), kFc2 + 64);
  EXPECT_EQ(reader.find("decoder.layers.1.mlp.linear_fc2.weight")->shape, (Shape{4, 16}));
  EXPECT_EQ(values_of(reader, "decoder.layers.1.mlp.linear_fc2.bias").front(), kFc2 + 128 + 4);
  EXPECT_EQ(values_of(reader, "decoder.final_layernorm.weight").front(), kParameters - 8);
  EXPECT_EQ(values_of(reader, "decoder.final_layernorm.bias").back(), kParameters - 1);
}

TEST_F(LlmcTest, ArgumentsSayTheModel) {
  const auto arguments = LlmcModel(put("model.bin", model_bytes())).arguments();
  EXPECT_EQ(arguments.at("--num-layers"), "2");
  EXPECT_EQ(arguments.at("--hidden-size"), "4");
  EXPECT_EQ(arguments.at("--num-attention-heads"), "2");
  EXPECT_EQ(arguments.at("--seq-length"), "3");
  EXPECT_EQ(arguments.at("--max-position-embeddings"), "3");
  EXPECT_EQ(arguments.at("--tokenizer-type"), "NullTokenizer");
  EXPECT_EQ(arguments.at("--vocab-size"), "4");
  EXPECT_EQ(arguments.at("--make-vocab-size-divisible-by"), "128");
  EXPECT_FALSE(arguments.contains("--bf16"));
}

TEST_F(LlmcTest, BFloat16) {
  auto fields = model_header();
  fields[1] = 5;
  std::vector<std::uint16_t> values(kParameters);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  const LlmcModel model(put("model.bin", raw(fields) + raw(values)));
  EXPECT_EQ(model.config().dtype, DType::kBF16);
  EXPECT_EQ(model.arguments().at("--bf16"), "true");
  const auto& last = model.tensors().back();
  EXPECT_EQ(last.name, "decoder.final_layernorm.bias");
  EXPECT_EQ(last.local.span<bfloat16>()[3].bits, kParameters - 1);
}

TEST_F(LlmcTest, MalformedModels) {
  const std::string good = model_bytes();
  for (const std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{1023}}) {
    EXPECT_THAT(model_error(good.substr(0, size)), HasSubstr("too few")) << size;
  }
  for (const std::size_t size : {std::size_t{1024}, good.size() - 4, good.size() - 1}) {
    EXPECT_THAT(model_error(good.substr(0, size)), HasSubstr("the header describes")) << size;
  }
  EXPECT_THAT(model_error(good + "x"), HasSubstr("the header describes"));
  EXPECT_THROW(LlmcModel(path("none.bin")), InputMissingError);

  const auto with = [&](std::size_t field, std::int32_t value) {
    auto fields = model_header();
    fields[field] = value;
    return model_error(raw(fields) + good.substr(1024));
  };
  EXPECT_THAT(with(0, 20240520), HasSubstr("not a model file of llm.c"));
  for (const std::int32_t version : {0, 1, 4, 6, -3}) {
    EXPECT_THAT(with(1, version), HasSubstr("is not supported"));
  }
  const std::vector<std::string> names = {"longest sequence", "vocabulary",       "layers", "heads",
                                          "channels",         "padded vocabulary"};
  for (std::size_t field = 2; field <= 7; ++field) {
    for (const std::int32_t value : {0, -1, std::numeric_limits<std::int32_t>::max()}) {
      EXPECT_THAT(with(field, value), HasSubstr("(" + names[field - 2] + ") is"));
    }
    EXPECT_THAT(with(field, 9), testing::Not("no error")) << field;
  }
  EXPECT_THAT(with(5, 3), HasSubstr("do not divide"));
  EXPECT_THAT(with(7, 4), HasSubstr("padded vocabulary"));
  auto huge = model_header();
  huge[4] = 4096;
  huge[6] = huge[7] = 1 << 24;
  EXPECT_THAT(model_error(raw(huge)), HasSubstr("beyond 2^63"));
}

TEST_F(LlmcTest, MalformedTokens) {
  const std::string good = token_bytes({0, 1, 2, 3, 4});
  EXPECT_EQ(token_error(good), "no error");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(token_error(good.substr(0, size)), "no error") << size;
  }
  EXPECT_THAT(token_error(good + "x"), HasSubstr("the header says 5 tokens"));
  EXPECT_THAT(token_error(token_bytes({0, 1, 5})), HasSubstr("token 2 is 5"));
  EXPECT_THAT(token_error(token_bytes({})), HasSubstr("number of tokens"));
  const auto with = [&](std::size_t field, std::int32_t value) {
    auto fields = header({20240520, 1, 5});
    fields[field] = value;
    return token_error(raw(fields) + good.substr(1024));
  };
  EXPECT_THAT(with(0, 20240326), HasSubstr("not a token file of llm.c"));
  EXPECT_THAT(with(1, 7), HasSubstr("is not supported"));
  for (const std::int32_t count : {0, -1, 4, 6, std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_NE(with(2, count), "no error") << count;
  }
}

// Whatever a header says: the model lies inside the file, or there is one clear error.
TEST_F(LlmcTest, RandomDamage) {
  std::mt19937 random(3);  // NOLINT: the same damage each time
  const std::string good = model_bytes();
  int read = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = good;
    for (std::uint32_t n = 0; n <= random() % 3; ++n) {
      // Small values, high bytes, and places without a meaning, where damage is harmless.
      damaged[random() % 40] = static_cast<char>(random() % 2 == 0 ? random() % 10 : random());
    }
    try {
      const LlmcModel model(put("model.bin", damaged));
      for (const auto& tensor : model.tensors()) check_boxes(tensor, Coverage::kWhole);
      ++read;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("model.bin: "));
    }
  }
  EXPECT_GT(read, 0);
}

TEST_F(LlmcTest, NothingIsWrittenWhereAnInputIsWrong) {
  put("model.bin", model_bytes());
  put("tokens.bin", token_bytes({9}));
  EXPECT_THROW(import_llmc(path("model.bin"), path("tokens.bin"), path("out"),
                           [](auto) { ADD_FAILURE() << "tokens were written"; }),
               DataError);
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

}  // namespace
}  // namespace phalanx
