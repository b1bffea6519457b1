#include "phalanx/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::HasSubstr;

Manifest example() {
  Manifest manifest = example_manifest(12);
  manifest.phalanx_version = "0.1.0";
  manifest.input_files[0].copy = "vocab.json";
  manifest.files = {{"model.safetensors", 1024, 0xabcdef0123456789U},
                    {"optimizer.safetensors", 9007199254740993, 1},
                    {"vocab.json", 12, 0xfeedU}};
  manifest.tensors = {
      {"decoder.layers.0.mlp.linear_fc1.weight", DType::kBF16, {8, 2}, "model.safetensors", 5},
      {"optimizer.exp_avg.x", DType::kF32, {}, "optimizer.safetensors", 6}};
  return manifest;
}

// The example with one field changed (a JSON pointer), and sealed again.
std::string changed(const std::string& pointer, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(manifest_to_json(example()));
  json.erase("manifest_xxh3");
  json[nlohmann::json::json_pointer(pointer)] = value;
  std::string text = json.dump(2);
  text.erase(text.rfind("\n}"));
  return seal_manifest(text + ",");
}

std::string without(const std::string& pointer) {
  auto json = nlohmann::json::parse(manifest_to_json(example()));
  json.erase("manifest_xxh3");
  const nlohmann::json::json_pointer place(pointer);
  json[place.parent_pointer()].erase(place.back());
  std::string text = json.dump(2);
  text.erase(text.rfind("\n}"));
  return seal_manifest(text + ",");
}

TEST(Manifest, RoundTrip) {
  const std::string text = manifest_to_json(example());
  EXPECT_EQ(parse_manifest(text, "m"), example());
  EXPECT_EQ(manifest_to_json(parse_manifest(text, "m")), text);
  EXPECT_TRUE(nlohmann::json::accept(text));
  Manifest empty;
  empty.files = {{"model.safetensors", 8, 0}};
  EXPECT_EQ(parse_manifest(manifest_to_json(empty), "m"), empty);
  // The seal is made anew where the text was edited.
  EXPECT_EQ(seal_manifest(text), text);
  EXPECT_EQ(parse_manifest(changed("/iteration", 13), "m").iteration, 13);
}

// Programs that know no bases must refuse such a checkpoint: it lacks most of its model.
TEST(Manifest, ABaseIsVersionFiveInFilesAndInParts) {
  Manifest manifest = example();
  manifest.base = {.path = "../../iter_0000000", .weights_xxh3 = 7, .manifest_xxh3 = ~0ULL};
  const std::string text = manifest_to_json(manifest);
  EXPECT_THAT(text, HasSubstr("\"format_version\": 5"));
  EXPECT_EQ(parse_manifest(text, "m"), manifest);
  manifest.files.pop_back();
  manifest.files.erase(manifest.files.begin(), manifest.files.begin() + 2);
  manifest.input_files[0].copy.clear();
  manifest.epoch = "e";
  manifest.parts = {{.rank = 0, .bytes = 64, .index_bytes = 3, .index_xxh3 = 9}};
  for (auto& entry : manifest.tensors) {
    entry.file.clear();
    entry.xxh3 = 0;
  }
  EXPECT_EQ(parse_manifest(manifest_to_json(manifest), "m"), manifest);
  EXPECT_THAT(error_of<DataError>([&] { parse_manifest(changed("/format_version", 5), "m"); }),
              HasSubstr("'base'"));
}

TEST(Manifest, NumbersKeepTheirBits) {
  Manifest manifest = example();
  for (const double scale : {1.0, 0.1, 65536.0, 1e300, 4.9e-324, 1.0 / 3.0}) {
    manifest.optimizer.loss_scale = scale;
    EXPECT_EQ(parse_manifest(manifest_to_json(manifest), "m").optimizer.loss_scale, scale);
  }
}

TEST(Manifest, ArgumentsThatAreNotUtf8StayReadable) {
  Manifest manifest = example();
  manifest.arguments["--data-path"] = "/data/\xff";
  EXPECT_EQ(parse_manifest(manifest_to_json(manifest), "m").arguments["--data-path"],
            "/data/\xef\xbf\xbd");
}

Manifest with_blocks() {
  Manifest manifest = example();
  manifest.data_blocks = {{"--data-path", "/data/corpus.bin", 100, 30, {1, 2, 3, 0xfeedU}},
                          {"--data-path", "/data/other.bin", 1, 30, {}}};
  return manifest;
}

Manifest with_parts() {
  Manifest manifest = with_blocks();
  manifest.files = {{"vocab.json", 2, 1}};
  manifest.input_files = {{"--vocab-file", "/data/vocab.json", 2, 1, "vocab.json"}};
  manifest.epoch = "0123456789abcdef0123456789abcdef.1.7";
  manifest.parts = {{0, 1000, 200, 0xfeedU}, {12345, 0, 300, 2}};
  manifest.tensors = {{"w", DType::kBF16, {3, 4}, "", 0, "optimizer.main_param.w"},
                      {"optimizer.main_param.w", DType::kF32, {3, 4}, "", 0}};
  return manifest;
}

TEST(Manifest, PartsRoundTrip) {
  const std::string text = manifest_to_json(with_parts());
  EXPECT_EQ(parse_manifest(text, "m"), with_parts());
  EXPECT_THAT(text, HasSubstr("\"format_version\": 4"));
}

TEST(Manifest, PartsAreChecked) {
  const auto fault = [](const auto& change) {
    Manifest manifest = with_parts();
    change(manifest);
    return error_of<DataError>([&] { parse_manifest(manifest_to_json(manifest), "m"); });
  };
  EXPECT_EQ(fault([](Manifest&) {}), "no error");
  EXPECT_THAT(fault([](Manifest& m) { m.parts[1].rank = 0; }), HasSubstr("rank 0 comes twice"));
  EXPECT_THAT(fault([](Manifest& m) { m.parts[1].rank = -1; }), HasSubstr("'rank'"));
  EXPECT_THAT(
      fault([](Manifest& m) { m.files[0].name = m.input_files[0].copy = "part-00000.bin"; }),
      HasSubstr("is no copy of an input file"));
  EXPECT_THAT(fault([](Manifest& m) {
                m.files.push_back({"model.safetensors", 1, 1});
              }),
              HasSubstr("is no copy of an input file"));
  EXPECT_THAT(fault([](Manifest& m) { m.tensors[0].rounded_from = "other"; }),
              HasSubstr("rounded from \"other\""));
  EXPECT_THAT(fault([](Manifest& m) { m.tensors[0].shape = {4, 4}; }), HasSubstr("rounded from"));
  EXPECT_THAT(fault([](Manifest& m) { m.tensors[1].rounded_from = "w"; }),
              HasSubstr("rounded from"));
  EXPECT_THAT(fault([](Manifest& m) { m.tensors[1].name = "w"; }), HasSubstr("w comes twice"));
}

TEST(Manifest, DataBlocksRoundTrip) {
  const std::string text = manifest_to_json(with_blocks());
  EXPECT_EQ(parse_manifest(text, "m"), with_blocks());
  EXPECT_THAT(text, HasSubstr("\"format_version\": 3"));
  // Programs that know nothing of them read what has none.
  EXPECT_THAT(manifest_to_json(example()), HasSubstr("\"format_version\": 2"));
}

TEST(Manifest, DataBlocksAreChecked) {
  using Json = nlohmann::json;
  const std::string digest = "0000000000000001";
  const std::vector<std::pair<std::string, std::vector<Json>>> cases = {
      {"/data_blocks", {1, Json::object()}},
      {"/data_blocks/0", {1}},
      {"/data_blocks/0/flag", {1}},
      {"/data_blocks/0/path", {nullptr}},
      {"/data_blocks/0/bytes", {-1, 90, 9223372036854775808U}},  // 90 has three blocks
      {"/data_blocks/0/block_bytes", {0, -1, 100}},
      {"/data_blocks/0/xxh3", {"feed", 1, digest + "000000000000FEED", digest + "0"}},
      {"/data_blocks/1/xxh3", {digest + digest}},
      {"/data_blocks/0/unknown", {1}},
      {"/format_version", {2}},
  };
  for (const auto& [pointer, values] : cases) {
    for (const auto& value : values) {
      auto json = Json::parse(manifest_to_json(with_blocks()));
      json.erase("manifest_xxh3");
      json[Json::json_pointer(pointer)] = value;
      std::string text = json.dump(2);
      text.erase(text.rfind("\n}"));
      EXPECT_THROW(parse_manifest(seal_manifest(text + ","), "m"), DataError)
          << pointer << " = " << value;
    }
  }
}

TEST(Manifest, EveryFieldIsChecked) {
  using Json = nlohmann::json;
  const std::vector<std::pair<std::string, std::vector<Json>>> cases = {
      {"/format", {"other", 3, nullptr}},
      {"/format_version", {0, -1, "1", 1.5}},
      {"/phalanx_version", {1, nullptr}},
      {"/run_id", {"x", "0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF", 1, nullptr}},
      {"/start", {-1, 0.5, "1"}},
      {"/iteration", {-1, 1.0, "12", 9223372036854775808U, nullptr}},
      {"/consumed_train_samples", {-1, "x"}},
      {"/consumed_valid_samples", {-1, 0.5}},
      {"/optimizer", {1, Json::array()}},
      {"/optimizer/adam_step", {-1, "1"}},
      {"/optimizer/loss_scale", {0, -1.0, "1", nullptr}},
      {"/optimizer/clean_steps", {-1}},
      {"/optimizer/hysteresis", {0.5}},
      {"/optimizer/schedule_steps", {-1}},
      {"/optimizer/unknown", {1}},
      {"/requested_samples", {"x"}},
      {"/requested_samples/train", {-1}},
      {"/requested_samples/valid", {true}},
      {"/requested_samples/test", {nullptr}},
      {"/requested_samples/unknown", {1}},
      {"/matmul_precision", {"fp16", "", 1}},
      {"/threads_per_rank", {-1, 2147483648, "2"}},
      {"/seed", {-1, 1.5, "1"}},
      {"/arguments", {Json::array(), "x"}},
      {"/arguments/--num-layers", {2, nullptr}},
      {"/input_files", {Json::object(), 1}},
      {"/input_files/0", {1, "x"}},
      {"/input_files/0/flag", {1}},
      {"/input_files/0/path", {nullptr}},
      {"/input_files/0/bytes", {-1}},
      {"/input_files/0/xxh3", {"feed", 1, "000000000000FEED"}},
      {"/input_files/0/copy", {"other.json", "../vocab.json", "model.safetensors", nullptr}},
      {"/files", {Json::object(), Json::array()}},
      {"/files/0/name",
       {"../model.safetensors", "/etc/passwd", "", "manifest.json", "optimizer.safetensors", 1}},
      {"/files/2/name", {"../vocab.json", "a/b", ".vocab", "..", "Manifest.JSON", "x.SafeTensors"}},
      {"/files/0/bytes", {-1, "x"}},
      {"/files/0/xxh3", {"", 7}},
      {"/files/0/unknown", {1}},
      {"/files/1/name", {"model.safetensors"}},
      {"/tensors", {Json::object()}},
      {"/tensors/0/name", {"", "a\nb", 1, "optimizer.exp_avg.x", "__metadata__"}},
      {"/tensors/0/dtype", {"F32", "f8", 1}},
      {"/tensors/0/shape",
       {1, Json::array({-1}), Json::array({1.5}), Json::array({1, 1, 1, 1, 1, 1, 1}),
        Json::array({4294967296, 4294967296})}},
      {"/tensors/0/file", {"x.safetensors", "../model.safetensors", "vocab.json", 1}},
      {"/tensors/0/xxh3", {"0"}},
      {"/tensors/0/unknown", {1}},
      {"/unknown", {1}},
  };
  for (const auto& [pointer, values] : cases) {
    for (const auto& value : values) {
      EXPECT_THROW(parse_manifest(changed(pointer, value), "m"), DataError)
          << pointer << " = " << value;
    }
  }
}

TEST(Manifest, EveryFieldIsNeeded) {
  const auto fields = nlohmann::json::parse(manifest_to_json(example())).flatten();
  for (const auto& [pointer, value] : fields.items()) {
    if (pointer == "/manifest_xxh3" || pointer.starts_with("/arguments/") ||
        pointer.find("/shape/") != std::string::npos) {
      continue;
    }
    EXPECT_THROW(parse_manifest(without(pointer), "m"), DataError) << pointer;
  }
  EXPECT_NO_THROW(parse_manifest(without("/arguments/--num-layers"), "m"));
}

TEST(Manifest, MessagesNameThePlace) {
  EXPECT_EQ(error_of<DataError>([&] {
              parse_manifest(changed("/tensors/1/dtype", "f8"), "/save/iter_0000012/manifest.json");
            }),
            "/save/iter_0000012/manifest.json: tensors[1]: 'dtype' \"f8\" is unknown");
}

TEST(Manifest, AnotherVersionIsNamed) {
  EXPECT_THAT(error_of<ConfigError>([&] { parse_manifest(changed("/format_version", 6), "m"); }),
              HasSubstr("format version 6"));
}

// What programs before runs had numbers wrote.
TEST(Manifest, VersionOneIsRead) {
  auto json = nlohmann::json::parse(manifest_to_json(example()));
  json.erase("manifest_xxh3");
  json.erase("run_id");
  json.erase("start");
  json["format_version"] = 1;
  json["files"].erase(2);
  json["input_files"].erase(1);
  json["input_files"][0].erase("copy");
  const auto text = [&] {
    std::string body = json.dump(2);
    body.erase(body.rfind("\n}"));
    return seal_manifest(body + ",");
  };
  Manifest expected = example();
  expected.run_id = "";
  expected.start = 0;
  expected.files.pop_back();
  expected.input_files.pop_back();
  expected.input_files[0].copy = "";
  EXPECT_EQ(parse_manifest(text(), "m"), expected);
  // It knew nothing of these.
  json["start"] = 3;
  EXPECT_THROW(parse_manifest(text(), "m"), DataError);
}

// A blend of many datasets is one argument.
TEST(Manifest, ArgumentsMayBeLong) {
  Manifest manifest = example();
  manifest.arguments["--data-path"] = std::string(1 << 20, 'x');
  EXPECT_EQ(parse_manifest(manifest_to_json(manifest), "m"), manifest);
}

TEST(Manifest, NamesOfCopies) {
  for (const auto* name : {"vocab.json", "merges.txt", "a", "A_b-c.9", "tokenizer.model"}) {
    EXPECT_TRUE(is_copy_name(name)) << name;
  }
  for (const auto* name :
       {"", ".", "..", ".hidden", "a/b", "/a", "a\\b", "a b", "a\nb", "\xc3\xa4", "manifest.json",
        "MANIFEST.json", "model.safetensors", "x.SAFETENSORS", "a.tmp", "a.tmp.0123456789abcdef"}) {
    EXPECT_FALSE(is_copy_name(name)) << name;
  }
  EXPECT_FALSE(is_copy_name(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_copy_name(std::string(100, 'a')));
  EXPECT_FALSE(is_copy_name(std::string(101, 'a')));
}

TEST(Manifest, EveryFlippedBitIsFound) {
  const std::string text = manifest_to_json(example());
  for (std::size_t byte = 0; byte < text.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(damaged, "m"), Error) << byte << " " << bit;
    }
  }
}

TEST(Manifest, EveryTruncationIsFound) {
  const std::string text = manifest_to_json(example());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(parse_manifest(text.substr(0, size), "m"), DataError) << size;
  }
  EXPECT_THROW(parse_manifest(text + " ", "m"), DataError);
}

// Damage that is sealed again, as an attacker would: it is read or there is one clear error.
TEST(Manifest, RandomDamageUnderAGoodSeal) {
  std::mt19937 random(2);  // NOLINT: the same damage each time
  const std::string text = manifest_to_json(example());
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (std::uint32_t n = 0; n <= random() % 3; ++n) {
      damaged[random() % (text.size() - 40)] =
          random() % 2 == 0 ? static_cast<char>(random()) : "[]{},:\"0129-"[random() % 12];
    }
    try {
      parse_manifest(seal_manifest(damaged), "m");
      ++read;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("m: "));
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 2900);
}

TEST(Manifest, InputFilesAreDescribed) {
  const TemporaryDirectory directory("manifest");
  const auto path = directory.path() / "vocab.json";
  put_file(path, "abc");
  EXPECT_EQ(describe_input_file("--vocab-file", path),
            (Manifest::InputFile{"--vocab-file", path.string(), 3, 0x78af5f94892f3950U, ""}));
  EXPECT_EQ(describe_input_length("--data-path", path),
            (Manifest::InputFile{"--data-path", path.string(), 3, std::nullopt, ""}));
  EXPECT_EQ(describe_input_copy("--vocab-file", path, {.name = "v", .bytes = "abc"}),
            (Manifest::InputFile{"--vocab-file", path.string(), 3, 0x78af5f94892f3950U, "v"}));
  EXPECT_THROW(describe_input_length("--data-path", directory.path() / "none"), InputMissingError);
  EXPECT_THROW(describe_input_length("--data-path", directory.path()), IoError);
  EXPECT_THROW(describe_input_file("--vocab-file", directory.path() / "none"), InputMissingError);
}

}  // namespace
}  // namespace phalanx
