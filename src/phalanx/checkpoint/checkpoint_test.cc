// Writer and reader together: round trips, keeping and replacing, damage.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checkpoint_fixture.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(CheckpointTest, RoundTrip) {
  const auto directory = save_at(1000, 5);
  EXPECT_EQ(directory, save() / "iter_0001000");
  EXPECT_EQ(read_file(save() / "latest_checkpointed_iteration.txt"), "1000");
  EXPECT_THAT(names(), ElementsAre("iter_0001000", "latest_checkpointed_iteration.txt"));

  for (const auto& path : {save(), fs::path(save().string() + "/"), directory}) {
    const auto reader = CheckpointReader::open(path);
    EXPECT_EQ(reader.directory(), directory);
    EXPECT_TRUE(reader.has_optimizer());
    Manifest expected = example_manifest(1000);
    expected.phalanx_version = PHALANX_VERSION;
    expected.files = reader.manifest().files;
    expected.tensors = reader.manifest().tensors;
    EXPECT_EQ(reader.manifest(), expected);
    EXPECT_EQ(reader.manifest().tensors.size(), 6U);
    reader.verify_all();
  }
}

TEST_F(CheckpointTest, TensorsComeBackWithoutTheirPadding) {
  save_at(1, 5);
  const auto reader = CheckpointReader::open(save());
  const auto* entry = reader.find("embedding.word_embeddings.weight");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->shape, (Shape{5, 4}));
  EXPECT_EQ(bytes_of(reader, *entry).size(), 80U);

  // Into another padding than it was saved from.
  Arena arena("loaded", 1 << 14);
  const auto spec = whole_parameter(entry->name, {5, 4}, DType::kF32, {}, /*padded_rows=*/6);
  for (const std::string_view prefix : {std::string_view(), kExpAvgPrefix, kExpAvgSqPrefix}) {
    const float base = prefix.empty() ? 5.0F : prefix == kExpAvgPrefix ? 1005.0F : 2005.0F;
    const auto target = global_tensor(spec, filled(arena, {6, 4}, -100), prefix);
    reader.read(target);
    const auto values = target.local.span<float>();
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], base + static_cast<float>(i));
    for (int i = 20; i < 24; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i - 100));
  }
}

TEST_F(CheckpointTest, ATypeConvertsOnlyWhenAsked) {
  save_at(1, 5);
  const auto reader = CheckpointReader::open(save());
  Arena arena("loaded", 4096);
  const auto target =
      whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kBF16, {4}));
  EXPECT_THAT(error_of([&] { reader.read(target); }), HasSubstr("is f32, the model asks for bf16"));
  EXPECT_THROW(reader.read(target), ConfigError);
  reader.read(target, DTypeMatch::kConvert);
  EXPECT_EQ(to_float(target.local.span<bfloat16>()[3]), 108);
  const auto integers =
      whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kI32, {4}));
  EXPECT_THROW(reader.read(integers, DTypeMatch::kConvert), ConfigError);
}

TEST_F(CheckpointTest, AnotherModelIsAConfigurationError) {
  save_at(1);
  const auto reader = CheckpointReader::open(save());
  Arena arena("loaded", 4096);
  const auto read = [&](const char* name, const Shape& shape) {
    return error_of([&] { reader.read(whole_tensor(name, arena.allocate(DType::kF32, shape))); });
  };
  EXPECT_THAT(read("decoder.final_layernorm.bias", {5}),
              HasSubstr("decoder.final_layernorm.bias is [4], the model asks for [5]"));
  EXPECT_THAT(read("decoder.layers.0.mlp.linear_fc1.bias", {4}),
              HasSubstr("no tensor decoder.layers.0.mlp.linear_fc1.bias"));
}

TEST_F(CheckpointTest, WeightsOnly) {
  save_checkpoint({.directory = save()}, example_manifest(0), TinyModel().weights());
  EXPECT_FALSE(fs::exists(save() / "iter_0000000" / "optimizer.safetensors"));
  const auto reader = CheckpointReader::open(save());
  EXPECT_FALSE(reader.has_optimizer());
  EXPECT_EQ(reader.find("optimizer.exp_avg.decoder.final_layernorm.bias"), nullptr);
  EXPECT_EQ(latest_base(), 0);
}

TEST_F(CheckpointTest, IncompleteTensorsAreNotSaved) {
  Arena arena("test", 4096);
  GlobalTensor half = whole_tensor("w", filled(arena, {2, 2}, 0));
  half.boxes[0].rows = 1;
  EXPECT_THROW(save_checkpoint({.directory = save()}, {}, {{half}}), InternalError);
  const std::vector<GlobalTensor> twice(2, whole_tensor("w", filled(arena, {2, 2}, 0)));
  EXPECT_THROW(save_checkpoint({.directory = save()}, {}, twice), InternalError);
  EXPECT_FALSE(fs::exists(save()));
}

TEST_F(CheckpointTest, AManifestThatCouldNotBeReadIsNotSaved) {
  save_at(1, 10);
  Manifest manifest = example_manifest(2);
  manifest.consumed_train_samples = -1;
  EXPECT_THROW(save_checkpoint({.directory = save()}, manifest, TinyModel(20).all()), DataError);
  EXPECT_EQ(latest_base(), 10);
  EXPECT_THAT(names(), ElementsAre("iter_0000001", "latest_checkpointed_iteration.txt"));
}

TEST_F(CheckpointTest, ParentsAreMade) {
  const auto deep = save() / "a" / "b";
  save_checkpoint({.directory = deep}, example_manifest(7), TinyModel().weights());
  EXPECT_EQ(CheckpointReader::open(deep).manifest().iteration, 7);
  put_file(save() / "file", "x");
  EXPECT_THROW(save_checkpoint({.directory = save() / "file"}, {}, {}), OutputError);
  EXPECT_THROW(save_checkpoint({.directory = save() / "file" / "c"}, {}, {}), OutputError);
}

// --- Keeping and replacing

TEST_F(CheckpointTest, KeepLast) {
  for (std::int64_t iteration = 1; iteration <= 5; ++iteration) save_at(iteration, 0, 3);
  EXPECT_THAT(iterations(), ElementsAre(3, 4, 5));
  save_at(6, 0, 0);
  EXPECT_THAT(iterations(), ElementsAre(3, 4, 5, 6));
  save_at(7, 0, 1);
  EXPECT_THAT(iterations(), ElementsAre(7));
  EXPECT_THAT(names(), ElementsAre("iter_0000007", "latest_checkpointed_iteration.txt"));
}

TEST_F(CheckpointTest, ARunThatWentBackKeepsItsOwnCheckpoints) {
  for (const std::int64_t iteration : {100, 200, 300}) save_at(iteration, 1, 0);
  // Of the second start: the latest, whatever iterations the first one reached.
  save_in_start(2, 150, 2, 0);
  EXPECT_EQ(latest_base(), 2);
  EXPECT_THAT(iterations(), ElementsAre(100, 200, 300, 150));
  save_in_start(2, 200, 3, 3);
  EXPECT_THAT(iterations(), ElementsAre(300, 150, 200));
  EXPECT_EQ(latest_base(), 3);
  // Later ones are not this run's to judge.
  save_in_start(1, 250, 4, 1);
  EXPECT_THAT(iterations(), ElementsAre(250, 300, 150, 200));
  EXPECT_EQ(latest_base(), 3);
  EXPECT_THAT(names(), Each(testing::Not(HasSubstr(".tmp"))));
}

TEST_F(CheckpointTest, WhatIsNotACheckpointStays) {
  fs::create_directories(save() / "iter_0000001" / "mp_rank_00");
  fs::create_directories(save() / "iter_2");
  fs::create_directories(save() / "notes.tmp");
  put_file(save() / "metrics.jsonl", "{}");
  for (const std::int64_t iteration : {2, 3}) save_at(iteration, 0, 1);
  EXPECT_THAT(names(),
              ElementsAre("iter_0000001", "iter_0000003", "iter_2",
                          "latest_checkpointed_iteration.txt", "metrics.jsonl", "notes.tmp"));
  EXPECT_THAT(error_of([&] { save_at(1); }), HasSubstr("not a checkpoint of Phalanx"));
}

// --- What is missing or damaged

TEST_F(CheckpointTest, TheManifestAndTheFilesMustAgree) {
  const auto latest = save_at(2);
  const std::string good = read_file(latest / kManifestName);
  const auto expect = [&](std::string_view from, std::string_view to, std::string_view message) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    put_file(latest / kManifestName, seal_manifest(text));
    EXPECT_THAT(error_of([&] { CheckpointReader::open(latest); }), HasSubstr(message)) << to;
  };
  expect("\"name\": \"embedding.", "\"name\": \"Embedding.", "of the manifest is missing");
  expect("\"dtype\": \"f32\", \"shape\": [5, 4]", "\"dtype\": \"i32\", \"shape\": [5, 4]",
         "the manifest says i32 [5, 4]");
  expect("\"shape\": [5, 4]", "\"shape\": [4, 5]", "the manifest says f32 [4, 5]");
  expect("\"iteration\": 2", "\"iteration\": 3", "is of iteration 3");
  // A tensor that nobody vouches for.
  const auto line = good.find("    {\"name\": \"embedding.");
  expect(good.substr(line, good.find('\n', line) + 1 - line), "", "is not in the manifest");
}

TEST_F(CheckpointTest, EveryFlippedBitOfATensorIsFound) {
  const auto latest = save_at(1);
  const auto path = latest / kModelFileName;
  const std::size_t data = fs::file_size(path) - 96;
  Arena arena("loaded", 4096);
  const auto words =
      whole_tensor("embedding.word_embeddings.weight", arena.allocate(DType::kF32, {5, 4}));
  const auto bias = whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kF32, {4}));
  for (std::size_t byte = 0; byte < 96; ++byte) {
    const int bit = static_cast<int>(byte % 8);
    flip_bit(path, data + byte, bit);
    const auto& damaged = byte < 80 ? words : bias;
    EXPECT_THAT(
        error_of([&] { CheckpointReader::open(latest); }),
        AllOf(HasSubstr(path.string()), HasSubstr("tensor " + damaged.name + " is damaged")));
    EXPECT_THROW(CheckpointReader::open(latest, Verify::kWeights), DataError);
    const auto unverified = CheckpointReader::open(save(), Verify::kNo);
    unverified.read(damaged);
    EXPECT_THROW(unverified.verify_all(), DataError);
    flip_bit(path, data + byte, bit);
  }
  CheckpointReader::open(save()).verify_all();
}

TEST_F(CheckpointTest, EveryFlippedBitOfAHeaderIsFound) {
  const auto latest = save_at(1, 5);
  const auto path = latest / kModelFileName;
  const std::string good = read_file(path);
  for (std::size_t byte = 0; byte < good.size() - 96; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = good;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      put_file(path, damaged);
      EXPECT_THROW(CheckpointReader::open(latest), DataError) << byte << " " << bit;
    }
  }
}

TEST_F(CheckpointTest, TwoTensorsInEachOthersPlace) {
  Arena arena("test", 4096);
  const std::vector<GlobalTensor> tensors = {whole_tensor("a", filled(arena, {4}, 0)),
                                             whole_tensor("b", filled(arena, {4}, 9))};
  const auto path = save_checkpoint({.directory = save()}, {}, tensors) / kModelFileName;
  std::string text = read_file(path);
  std::swap(text[text.find("\"a\"") + 1], text[text.find("\"b\"") + 1]);
  put_file(path, text);
  EXPECT_THAT(error_of([&] { CheckpointReader::open(save()).read(tensors[0]); }),
              HasSubstr("tensor a is damaged"));
}

// In place, as a disk or a person does it: whoever has the file open sees it.
void overwrite_last_byte(const fs::path& path) {
  const auto size = static_cast<off_t>(fs::file_size(path));
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  char byte = 0;
  EXPECT_EQ(::pread(descriptor, &byte, 1, size - 1), 1);
  byte = static_cast<char>(byte ^ 1);
  EXPECT_EQ(::pwrite(descriptor, &byte, 1, size - 1), 1);
  ::close(descriptor);
}

TEST_F(CheckpointTest, FilesAreHashedWhenTheyAreOpenedAndNotAgain) {
  const auto latest = save_at(1, 5);
  const auto reader = CheckpointReader::open(save());
  overwrite_last_byte(latest / kModelFileName);
  overwrite_last_byte(latest / kOptimizerFileName);
  Arena arena("loaded", 4096);
  const auto bias = whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kF32, {4}));
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(reader.read(bias));
  EXPECT_NE(bias.local.span<float>()[3], 108);  // it is the damaged one that was read
  EXPECT_THROW(reader.verify_all(), DataError);
  EXPECT_THROW(CheckpointReader{latest}, DataError);
}

TEST_F(CheckpointTest, WhoReadsWeightsNeedsNoOptimizer) {
  const auto latest = save_at(1, 5);
  overwrite_last_byte(latest / kOptimizerFileName);
  EXPECT_THROW(CheckpointReader::open(save()), DataError);
  const auto reader = CheckpointReader::open(save(), Verify::kWeights);
  EXPECT_TRUE(reader.has_optimizer());
  Arena arena("loaded", 4096);
  const auto bias = whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kF32, {4}));
  reader.read(bias);
  EXPECT_EQ(bias.local.span<float>()[3], 108);
  const auto moment = whole_tensor("optimizer.exp_avg.decoder.final_layernorm.bias", bias.local);
  EXPECT_THROW(reader.read(moment), InternalError);
  fs::remove(latest / kOptimizerFileName);
  EXPECT_NO_THROW(CheckpointReader::open(save(), Verify::kWeights));
  overwrite_last_byte(latest / kModelFileName);
  EXPECT_THROW(CheckpointReader::open(save(), Verify::kWeights), DataError);
}

// Whether this process has a file below `directory` open.
bool is_open(const fs::path& directory) {
  const auto in_it = [&](const fs::directory_entry& descriptor) {
    std::error_code error;
    return fs::read_symlink(descriptor, error).string().starts_with(directory.string());
  };
  return std::ranges::any_of(fs::directory_iterator("/proc/self/fd"), in_it);
}

// Else a run holds the disk space of the checkpoint it began with after that was pruned.
TEST_F(CheckpointTest, AReadersFilesAreLetGoWithIt) {
  const auto latest = fs::canonical(save_at(1));
  std::optional<CheckpointReader> reader = CheckpointReader::open(save());
  EXPECT_TRUE(is_open(latest));
  reader.reset();
  EXPECT_FALSE(is_open(latest));
}

// Narrow boxes come with what lies between their rows, wide ones row by row, whole rows at once.
TEST_F(CheckpointTest, APartOfATensorIsReadAlone) {
  Arena arena("wide", std::int64_t{4} << 20);
  const std::int64_t rows = 30, columns = 20'000;
  const std::vector<GlobalTensor> tensors = {
      whole_tensor("wide", filled(arena, {rows, columns}, 0)),
      whole_tensor("vector", filled(arena, {columns}, 7))};
  save_checkpoint({.directory = save()}, example_manifest(1), tensors);
  const auto reader = CheckpointReader::open(save());
  const auto expect = [&](const GlobalTensor& tensor, const MatrixBox& box) {
    std::vector<float> values(static_cast<std::size_t>(box.count()));
    reader.read_box(*reader.find(tensor.name), box, std::as_writable_bytes(std::span(values)));
    std::vector<float> expected;
    for (std::int64_t row = box.row; row < box.row + box.rows; ++row) {
      const float* from = tensor.local.as<float>() + row * columns + box.column;
      expected.insert(expected.end(), from, from + box.columns);
    }
    EXPECT_EQ(values, expected);
  };
  expect(tensors[0], whole_box(tensors[0].global_shape));
  expect(tensors[0], {3, 0, 5, columns});
  expect(tensors[0], {0, 17, rows, 3});
  expect(tensors[0], {1, columns - 3000, rows - 1, 3000});
  expect(tensors[0], {rows - 1, 5, 1, 7});
  expect(tensors[0], {0, 0, 0, 0});
  expect(tensors[1], {0, 100, 1, 900});
  EXPECT_THROW(expect(tensors[0], {1, 0, rows, 1}), InternalError);
  EXPECT_THROW(expect(tensors[0], {0, columns, 1, 1}), InternalError);
}

// --- Copies of input files

class CopiesTest : public CheckpointTest {
 protected:
  fs::path save_copies(const std::vector<InputCopy>& copies, const std::string& named = "") const {
    Manifest manifest = example_manifest(1);
    manifest.input_files.clear();
    for (const auto& copy : copies) {
      manifest.input_files.push_back(describe_input_copy("--" + copy.name, "/data/x", copy));
    }
    if (!named.empty()) manifest.input_files.push_back({"--flag", "/data/x", 1, 1, named});
    return save_checkpoint({.directory = save(), .copies = copies}, std::move(manifest),
                           TinyModel().all());
  }
};

TEST_F(CopiesTest, ComeBack) {
  const std::string binary("a\0\n\xff", 4);
  const auto latest = save_copies({{"vocab.json", "{}"}, {"merges.txt", binary}, {"empty", ""}});
  const auto reader = CheckpointReader::open(save());
  EXPECT_EQ(reader.copy_of("--vocab.json"), latest / "vocab.json");
  EXPECT_EQ(read_file(*reader.copy_of("--vocab.json")), "{}");
  EXPECT_EQ(read_file(*reader.copy_of("--merges.txt")), binary);
  EXPECT_EQ(read_file(*reader.copy_of("--empty")), "");
  EXPECT_FALSE(reader.copy_of("--merge-file"));
  EXPECT_TRUE(reader.has_optimizer());
  ASSERT_EQ(reader.manifest().files.size(), 5U);
  EXPECT_EQ(reader.manifest().files[3], (Manifest::File{"merges.txt", 4, xxh3(binary)}));
  reader.verify_all();
}

TEST_F(CopiesTest, AnInputThatIsNotCopiedHasNone) {
  save_at(1);
  EXPECT_FALSE(CheckpointReader::open(save()).copy_of("--vocab-file"));
}

TEST_F(CopiesTest, DamageIsFound) {
  const auto latest = save_copies({{"vocab.json", "{}"}});
  put_file(latest / "vocab.json", "[]");
  for (const auto verify : {Verify::kYes, Verify::kWeights}) {
    EXPECT_THAT(error_of([&] { CheckpointReader::open(latest, verify); }),
                HasSubstr((latest / "vocab.json").string() + ": damaged"));
  }
  EXPECT_NO_THROW(CheckpointReader::open(latest, Verify::kNo));
  put_file(latest / "vocab.json", "{ }");
  EXPECT_THAT(error_of([&] { CheckpointReader::open(latest, Verify::kNo); }),
              HasSubstr("has 3 bytes, the manifest says 2"));
  fs::remove(latest / "vocab.json");
  EXPECT_THROW(CheckpointReader::open(latest, Verify::kNo), InputMissingError);
}

TEST_F(CopiesTest, ForbiddenNamesAreNotWritten) {
  for (const auto* name : {"../vocab.json", "/tmp/vocab.json", "", ".lock", "manifest.json",
                           "model.safetensors", "Optimizer.safetensors", "a.tmp"}) {
    EXPECT_THROW(save_copies({{name, "x"}}), InternalError) << name;
  }
  EXPECT_THROW(save_copies({{"a", "x"}, {"a", "y"}}), InternalError);
  EXPECT_THROW(save_copies({{"a", "x"}}, "b"), InternalError);
  EXPECT_FALSE(fs::exists(save()));
}

// A manifest from outside: what it calls a copy must lie beside it.
TEST_F(CopiesTest, ForbiddenNamesAreNotRead) {
  const auto latest = save_copies({{"vocab.json", "{}"}});
  put_file(save() / "secret", "{}");
  const std::string good = read_file(latest / kManifestName);
  for (const auto* name : {"../secret", "/etc/passwd", ".", "..", "manifest.json"}) {
    std::string text = good;
    for (auto at = text.find("\"vocab.json\""); at != std::string::npos;
         at = text.find("\"vocab.json\"")) {
      text.replace(at, 12, "\"" + std::string(name) + "\"");
    }
    put_file(latest / kManifestName, seal_manifest(text));
    EXPECT_THROW(CheckpointReader::open(latest, Verify::kNo), DataError) << name;
  }
}

}  // namespace
}  // namespace phalanx
