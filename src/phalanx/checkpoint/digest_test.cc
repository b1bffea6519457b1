#include "phalanx/checkpoint/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/diff.h"
#include "phalanx/checkpoint/info.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

class DigestTest : public testing::Test {
 protected:
  CheckpointReader save(const std::string& name, std::int64_t iteration,
                        std::span<const GlobalTensor> tensors) const {
    const auto path = save_checkpoint({.directory = directory_.path() / name},
                                      example_manifest(iteration), tensors);
    return CheckpointReader(path);
  }
  std::filesystem::path directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_{"digest"};
};

TEST_F(DigestTest, IsOfTheGlobalBytes) {
  const auto reader = save("a", 4, TinyModel(5).all());
  const Json json = Json::parse(to_json(digest_checkpoint(reader)));
  EXPECT_EQ(json.at("iteration"), 4);
  EXPECT_EQ(json.at("tensors").size(), 6U);
  const Json& words = json.at("tensors").at("embedding.word_embeddings.weight");
  EXPECT_EQ(words.at("dtype"), "f32");
  EXPECT_EQ(words.at("shape"), Json({5, 4}));
  std::vector<float> values(20);
  std::iota(values.begin(), values.end(), 5.0F);
  EXPECT_EQ(words.at("xxh3"), digest_to_text(xxh3(std::as_bytes(std::span(values)))));
  EXPECT_TRUE(json.at("tensors").contains("optimizer.exp_avg_sq.decoder.final_layernorm.bias"));
  EXPECT_THAT(to_text(digest_checkpoint(reader)),
              HasSubstr("f32   embedding.word_embeddings.weight  [5, 4]\n"));
}

// Two layouts of the same global tensor have one digest.
TEST_F(DigestTest, DoesNotSeeTheLayout) {
  Arena arena("test", 4096);
  const Tensor plain = filled(arena, {4, 2}, 0);
  const Tensor padded = arena.allocate(DType::kF32, {6, 2});
  std::memcpy(padded.slice(0, 3, 2).data(), plain.data(), 16);
  std::memcpy(padded.slice(0, 0, 2).data(), plain.slice(0, 2, 2).data(), 16);
  const GlobalTensor permuted{.name = "w",
                              .global_shape = {4, 2},
                              .local = padded,
                              .boxes = {{.local_row = 3, .rows = 2, .columns = 2},
                                        {.global_row = 2, .rows = 2, .columns = 2}}};
  EXPECT_EQ(to_json(digest_checkpoint(save("a", 1, {{whole_tensor("w", plain)}}))),
            to_json(digest_checkpoint(save("b", 1, {{permuted}}))));
}

TEST_F(DigestTest, DamageIsAnError) {
  const auto reader = save("a", 4, TinyModel(5).all());
  const auto path = reader.directory() / "model.safetensors";
  flip_bit(path, std::filesystem::file_size(path) - 1, 0);
  EXPECT_THROW(digest_checkpoint(CheckpointReader(reader.directory())), DataError);
}

TEST_F(DigestTest, DiffOfEqualTensors) {
  const auto a = save("a", 4, TinyModel(5).all());
  const auto b = save("b", 6, TinyModel(5).all());
  const auto difference = diff_checkpoints(a, b);
  EXPECT_TRUE(difference.tensors_equal());
  const Json json = Json::parse(to_json(difference));
  EXPECT_EQ(json.at("equal"), true);
  EXPECT_EQ(json.at("iterations"), Json({4, 6}));
  EXPECT_EQ(to_text(difference), "iterations 4 and 6\nthe tensors are equal\n");
}

TEST_F(DigestTest, DiffFindsTheFirstElementAndTheLargestDistance) {
  Arena arena("test", 8192);
  const Tensor first = filled(arena, {3, 2}, 0);
  const Tensor second = filled(arena, {3, 2}, 0);
  second.span<float>()[3] = 3.5F;
  second.span<float>()[4] = -4;
  second.span<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor same = filled(arena, {2}, 0);
  const Tensor shorter = filled(arena, {1}, 0);
  const auto a = save("a", 1,
                      {{whole_tensor("same", same), whole_tensor("w", first),
                        whole_tensor("shape", same), whole_tensor("lost", same)}});
  const auto b = save("b", 1,
                      {{whole_tensor("new", same), whole_tensor("shape", shorter),
                        whole_tensor("w", second), whole_tensor("same", same)}});
  const auto difference = diff_checkpoints(a, b);
  EXPECT_THAT(difference.only_in_a, ElementsAre("lost"));
  EXPECT_THAT(difference.only_in_b, ElementsAre("new"));
  ASSERT_EQ(difference.tensors.size(), 2U);
  const auto& w = difference.tensors[0];
  EXPECT_EQ(w.name, "w");
  EXPECT_THAT(w.first_index, ElementsAre(1, 1));
  EXPECT_EQ(w.value_a, 3);
  EXPECT_EQ(w.value_b, 3.5);
  EXPECT_EQ(w.count, 3);
  EXPECT_EQ(w.max_absolute_difference, 8);
  EXPECT_EQ(difference.tensors[1].name, "shape");
  EXPECT_FALSE(difference.tensors[1].comparable);

  const Json json = Json::parse(to_json(difference));
  EXPECT_EQ(json.at("equal"), false);
  EXPECT_EQ(json.at("differing")[0].at("first_index"), Json({1, 1}));
  EXPECT_EQ(json.at("differing")[0].at("values"), Json({3.0, 3.5}));
  EXPECT_EQ(json.at("differing")[1].at("shapes"), Json({{2}, {1}}));
  EXPECT_EQ(to_text(difference),
            "only in the first: lost\nonly in the second: new\n"
            "w: 3 of 6 elements differ, first [1, 1]: 3 and 3.5; largest difference 8\n"
            "shape: f32 [2] and f32 [1]\n");
}

// Bits decide: -0 and 0 differ.
TEST_F(DigestTest, DiffSeesTheSignOfZero) {
  Arena arena("test", 4096);
  const Tensor zero = filled(arena, {1}, 0.0F);
  const Tensor negative = filled(arena, {1}, -0.0F);
  const auto difference = diff_checkpoints(save("a", 1, {{whole_tensor("w", zero)}}),
                                           save("b", 1, {{whole_tensor("w", negative)}}));
  ASSERT_EQ(difference.tensors.size(), 1U);
  EXPECT_EQ(difference.tensors[0].max_absolute_difference, 0);
}

TEST_F(DigestTest, InfoOfInputFiles) {
  Manifest manifest = example_manifest(4);
  manifest.input_files[0].copy = "vocab.json";
  const auto path =
      save_checkpoint({.directory = directory() / "copies", .copies = {{"vocab.json", "{}"}}},
                      manifest, TinyModel().all());
  const CheckpointReader reader(path);
  const Json files = Json::parse(info_json(reader)).at("input_files");
  EXPECT_EQ(files[0], Json({{"flag", "--vocab-file"},
                            {"path", "/data/vocab.json"},
                            {"bytes", 12},
                            {"xxh3", "000000000000feed"},
                            {"copy", "vocab.json"}}));
  EXPECT_EQ(files[1].at("xxh3"), nullptr);
  EXPECT_EQ(files[1].at("copy"), nullptr);
  EXPECT_THAT(info_text(reader),
              HasSubstr("/data/vocab.json (000000000000feed, kept as vocab.json)\n"));
  EXPECT_THAT(info_text(reader), HasSubstr("/data/corpus.bin (1.00 MiB)\n"));
}

TEST_F(DigestTest, Info) {
  const auto reader = save("a", 4, TinyModel(5).all());
  const Json json = Json::parse(info_json(reader));
  EXPECT_EQ(json.at("run_id"), "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(json.at("start"), 1);
  EXPECT_EQ(json.at("iteration"), 4);
  EXPECT_EQ(json.at("parameters"), 24);
  EXPECT_EQ(json.at("has_optimizer"), true);
  EXPECT_EQ(json.at("optimizer_states"), (Json{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(json.at("arguments").at("--num-layers"), "2");
  EXPECT_EQ(json.at("files").size(), 2U);
  EXPECT_EQ(json.at("seed").get<std::uint64_t>(), 18446744073709551615U);
  const auto text = info_text(reader);
  EXPECT_THAT(text, HasSubstr("run               0123456789abcdef0123456789abcdef, start 1\n"));
  EXPECT_THAT(text, HasSubstr("iteration         4\n"));
  EXPECT_THAT(text, HasSubstr("parameters        24 in 6 tensors\n"));
  EXPECT_THAT(text, HasSubstr("optimizer state   exp_avg, exp_avg_sq after 3 updates\n"));
  EXPECT_THAT(text, HasSubstr("--num-layers 2\n"));
  EXPECT_THAT(info_text(save("b", 0, TinyModel().weights())), HasSubstr("none (weights only)"));
}

}  // namespace
}  // namespace phalanx
