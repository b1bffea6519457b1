// Checkpoints in parts: they hold what checkpoints of whole tensors hold, and whatever is wrong
// with them is found and named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checkpoint_fixture.h"
#include "phalanx/checkpoint/consolidate.h"
#include "phalanx/checkpoint/coverage.h"
#include "phalanx/checkpoint/diff.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/checkpoint/info.h"
#include "phalanx/checkpoint/parts_test_support.h"
#include "phalanx/checkpoint/verify.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class PartsTest : public CheckpointTest {
 protected:
  PartsTest() {
    const auto add = [&](std::string name, const Shape& shape, float first) {
      tensors_.push_back(whole_tensor(std::move(name), filled(arena_, shape, first)));
    };
    add("wide", {60, 40}, 1);  // 9,600 bytes: three blocks
    add("vector", {33}, 5000);
    add("optimizer.exp_avg.wide", {60, 40}, 6000);
    add("optimizer.exp_avg.vector", {33}, 9000);
  }

  // In parts of three ranks.
  TestParts parts(std::int64_t step = 777) const {
    return {tensors_, cut_for_ranks(tensors_, 3, step)};
  }
  fs::path save_parts(TestParts& content, std::int64_t iteration = 1) const {
    return save_checkpoint({.directory = save(), .copies = {{"vocab.json", "{}"}}},
                           manifest_of(iteration), content);
  }
  fs::path save_parts() const {
    TestParts content = parts();
    return save_parts(content);
  }
  static Manifest manifest_of(std::int64_t iteration) {
    Manifest manifest = example_manifest(iteration);
    manifest.input_files[0].copy = "vocab.json";
    return manifest;
  }
  fs::path whole() const {
    return save_checkpoint(
        {.directory = save().string() + "-whole", .copies = {{"vocab.json", "{}"}}}, manifest_of(1),
        tensors_);
  }
  // The message with which the checkpoint is refused.
  static std::string refusal(const fs::path& directory) {
    return error_of(ErrorCode::kBadData, [&] { CheckpointReader reader(directory); });
  }

  Arena arena_{"parts", 1 << 18};
  std::vector<GlobalTensor> tensors_;
};

TEST_F(PartsTest, HoldWhatWholeTensorsHold) {
  const CheckpointReader expected(whole());
  for (const std::int64_t step : {1, 40, 777, 100'000}) {
    SCOPED_TRACE(step);
    fs::remove_all(save());
    TestParts content = parts(step);
    const CheckpointReader reader(save_parts(content));
    EXPECT_TRUE(diff_checkpoints(expected, reader).tensors_equal());
    EXPECT_EQ(to_json(digest_checkpoint(reader)), to_json(digest_checkpoint(expected)));
    EXPECT_TRUE(reader.has_optimizer());
    EXPECT_EQ(read_file(*reader.copy_of("--vocab-file")), "{}");
    reader.verify_all();
  }
}

TEST_F(PartsTest, APartOfATensorIsReadAlone) {
  const CheckpointReader reader(save_parts());
  const auto* entry = reader.find("wide");
  for (const MatrixBox& box : {MatrixBox{0, 0, 60, 40}, MatrixBox{3, 7, 50, 2},
                               MatrixBox{59, 39, 1, 1}, MatrixBox{10, 0, 30, 40}}) {
    std::vector<float> values(static_cast<std::size_t>(box.count()));
    reader.read_box(*entry, box, std::as_writable_bytes(std::span(values)));
    for (std::int64_t i = 0; i < box.count(); ++i) {
      const std::int64_t row = box.row + i / box.columns, column = box.column + i % box.columns;
      EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(1 + row * 40 + column));
    }
  }
}

TEST_F(PartsTest, BecomeWholeTensors) {
  const fs::path expected = whole();
  const fs::path parts = save_parts();
  const CheckpointReader reader(parts);
  const fs::path other = consolidate(reader, save().string() + "-other");
  for (const auto name : {kManifestName, kModelFileName, kOptimizerFileName}) {
    EXPECT_EQ(read_file(other / name), read_file(expected / name)) << name;
  }
  EXPECT_EQ(read_file(other / "vocab.json"), "{}");
  // In place.
  EXPECT_EQ(consolidate(reader, save()), parts);
  EXPECT_EQ(read_file(parts / kManifestName), read_file(expected / kManifestName));
  EXPECT_FALSE(fs::exists(parts / "part-00000.bin"));
  // The parts are not at their place any more, but the reader has them open.
  EXPECT_TRUE(diff_checkpoints(CheckpointReader(parts), reader).tensors_equal());
}

TEST_F(PartsTest, AWeightMayBeRoundedFromItsMainParameter) {
  const auto name = std::string(kMainParamPrefix) + "w";
  std::vector<GlobalTensor> stored = {whole_tensor(name, filled(arena_, {7, 300}, 1000.3F))};
  const auto weight = whole_tensor("w", arena_.allocate(DType::kBF16, {7, 300}));
  const auto exact = std::as_bytes(std::span<const float>(stored[0].local.span<float>()));
  fill_from_box(weight, whole_box(weight.global_shape), DType::kF32, exact);
  TestParts content(stored, cut_for_ranks(stored, 2, 333));
  content.rounded = {{weight, name}};
  const CheckpointReader reader(save_parts(content));
  const auto read = bytes_of(reader, *reader.find("w"));
  EXPECT_TRUE(std::ranges::equal(
      read, std::as_bytes(std::span<const bfloat16>(weight.local.span<bfloat16>()))));
  // What a weight is rounded from is verified with the weights.
  flip_bit(reader.directory() / "part-00001.bin", 100, 3);
  EXPECT_THAT(
      error_of<DataError>([&] { CheckpointReader weights(reader.directory(), Verify::kWeights); }),
      AllOf(HasSubstr("part-00001.bin"), HasSubstr(name)));
}

TEST_F(PartsTest, InfoTellsOfThem) {
  const CheckpointReader reader(save_parts());
  EXPECT_THAT(info_text(reader), AllOf(HasSubstr("parts             of 3 ranks"),
                                       HasSubstr("2,433 in 4 tensors"), HasSubstr("exp_avg")));
  EXPECT_THAT(info_json(reader), HasSubstr("\"parts\""));
}

// --- Damage

TEST_F(PartsTest, EveryFlippedBitOfAnIndexIsFound) {
  const fs::path index = save_parts() / "part-00001.json";
  const std::string text = read_file(index);
  for (std::size_t byte = 0; byte < text.size(); byte += 3) {
    std::string damaged = text;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
    put_file(index, damaged);
    EXPECT_THAT(refusal(index.parent_path()), HasSubstr(index.string())) << byte;
    // Also where nobody compares it with the manifest.
    EXPECT_THROW(parse_part_index(damaged, "x"), Error) << byte;
  }
}

TEST_F(PartsTest, AFlippedBitOfTheDataIsFoundWithItsTensor) {
  const fs::path directory = save_parts();
  const fs::path data = directory / "part-00002.bin";
  const CheckpointReader unverified(directory, Verify::kNo);
  const auto bytes = static_cast<std::size_t>(fs::file_size(data));
  for (std::size_t byte = 0; byte < bytes; byte += 500) {
    flip_bit(data, byte, 5);
    EXPECT_THAT(refusal(directory), AllOf(HasSubstr(data.string()), HasSubstr("block"),
                                          HasSubstr("tensor "), HasSubstr("damaged")));
    flip_bit(data, byte, 5);
  }
  // A reader that verified nothing when it opened it finds it, too, in the blocks that it reads.
  const CheckpointReader opened(directory, Verify::kNo);
  flip_bit(data, 0, 0);
  const CheckpointReader again(directory, Verify::kNo);
  EXPECT_THROW(bytes_of(again, *again.find("wide")), DataError);
}

TEST_F(PartsTest, TruncatedAndMissingFilesAreNamed) {
  const fs::path directory = save_parts();
  for (const std::string name : {"part-00000.bin", "part-00002.json", "vocab.json"}) {
    const std::string text = read_file(directory / name);
    for (const std::size_t size : {std::size_t{0}, text.size() / 2, text.size() - 1}) {
      put_file(directory / name, text.substr(0, size));
      EXPECT_THAT(refusal(directory), HasSubstr((directory / name).string()));
    }
    put_file(directory / name, text + "\n");
    EXPECT_THAT(refusal(directory), HasSubstr((directory / name).string()));
    fs::remove(directory / name);
    EXPECT_THAT(error_of<InputMissingError>([&] { CheckpointReader reader(directory); }),
                HasSubstr((directory / name).string()));
    put_file(directory / name, text);
  }
  CheckpointReader(directory).verify_all();
}

TEST_F(PartsTest, ADamagedOneIsPassedOver) {
  save_at(1, 10);
  TestParts content = parts();
  const fs::path directory = save_parts(content, 2);
  flip_bit(directory / "part-00000.bin", 9, 1);
  std::string warnings =
      warnings_of([&] { EXPECT_EQ(CheckpointReader::open(save()).manifest().iteration, 1); });
  EXPECT_THAT(warnings, HasSubstr("part-00000.bin"));
}

TEST_F(PartsTest, VerifyTellsOfEach) {
  save_at(1, 10);
  TestParts content = parts();
  const fs::path second = save_parts(content, 2);
  auto verified = verify_checkpoints(save());
  ASSERT_EQ(verified.size(), 2U);
  EXPECT_EQ(verified[0].fault + verified[1].fault, "");
  EXPECT_THAT(to_text(verified), HasSubstr("iter_0000002: whole, "));
  flip_bit(second / "part-00001.bin", 1000, 1);
  verified = verify_checkpoints(save());
  EXPECT_EQ(verified[0].fault, "");
  EXPECT_THAT(verified[1].fault, HasSubstr("part-00001.bin"));
  EXPECT_THAT(to_json(verified), AllOf(HasSubstr("part-00001.bin"), HasSubstr("\"fault\": null")));
  fs::remove(second / kManifestName);
  EXPECT_THAT(verify_checkpoints(save())[1].fault, HasSubstr("has no manifest.json"));
  EXPECT_THAT(verify_checkpoints(second)[0].fault, HasSubstr("has no manifest.json"));
  EXPECT_THROW(verify_checkpoints(save() / "none"), InputMissingError);
}

// --- Wrong parts whose digests are right

TEST_F(PartsTest, APieceWrittenTwiceIsFound) {
  auto pieces = cut_for_ranks(tensors_, 3, 777);
  pieces[2].push_back(pieces[0][0]);
  TestParts content(tensors_, pieces);
  EXPECT_THAT(
      refusal(save_parts(content)),
      AllOf(HasSubstr("tensor wide"), HasSubstr("is written twice, by rank 0 and by rank 2")));
}

TEST_F(PartsTest, APieceLeftOutIsFound) {
  auto pieces = cut_for_ranks(tensors_, 3, 777);
  pieces[1].erase(pieces[1].begin());
  TestParts content(tensors_, pieces);
  EXPECT_THAT(refusal(save_parts(content)), AllOf(HasSubstr("tensor wide is [60, 40]"),
                                                  HasSubstr("the parts have 1623 of its 2400")));
}

TEST_F(PartsTest, APartOfAnotherSaveIsFound) {
  TestParts content = parts();
  content.epoch_of = [&](int rank) { return content.epoch + (rank == 1 ? "0" : ""); };
  EXPECT_THAT(refusal(save_parts(content)),
              AllOf(HasSubstr("part-00001.json"), HasSubstr("of another save")));
}

TEST_F(PartsTest, WhatIsNoTensorsIsFound) {
  auto pieces = cut_for_ranks(tensors_, 3, 777);
  pieces[0][0].name = "other";
  TestParts unknown(tensors_, pieces);
  EXPECT_THAT(refusal(save_parts(unknown)), HasSubstr("a piece of other, which"));
  pieces = cut_for_ranks(tensors_, 3, 777);
  pieces[0][0].boxes[0].global_row += 60;
  TestParts outside(tensors_, pieces);
  EXPECT_THAT(refusal(save_parts(outside)),
              HasSubstr("the part of rank 0 has a box outside of it"));
}

// --- The index

TEST(PartIndex, RoundTrips) {
  const PartIndex empty{.epoch = "e", .rank = 3, .block_bytes = 4096, .blocks = {}, .pieces = {}};
  EXPECT_EQ(parse_part_index(part_index_to_json(empty), "x"), empty);
  PartIndex index = empty;
  index.bytes = 5000;
  index.blocks = {1, 0xfeedfeedfeedfeedU};
  index.pieces = {{"a \"b\"", 0, {{1, 2, 3, 4}, {0, 0, 1, 1}}}, {"c", 52, {{9, 9, 9, 9}}}};
  EXPECT_EQ(parse_part_index(part_index_to_json(index), "x"), index);
}

TEST(PartIndex, FieldsAreChecked) {
  const PartIndex index{.epoch = "e",
                        .rank = 3,
                        .bytes = 5000,
                        .block_bytes = 4096,
                        .blocks = {1, 2},
                        .pieces = {{"a", 0, {{1, 2, 3, 4}}}}};
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = part_index_to_json(index);
    text.replace(text.find(from), from.size(), to);
    text.resize(text.find("\n  \"index_xxh3\""));
    text += fmt::format("\n  \"index_xxh3\": \"{}\"\n}}\n", digest_to_text(xxh3(text)));
    return error_of([&] { parse_part_index(text, "part.json"); });
  };
  EXPECT_EQ(with("\"epoch\"", "\"epoch\""), "no error");
  EXPECT_THAT(with("\"rank\": 3", "\"rank\": -3"), HasSubstr("'rank'"));
  EXPECT_THAT(with("\"bytes\": 5000", "\"bytes\": 50000"), HasSubstr("'blocks' has 32 digits"));
  EXPECT_THAT(with("0000000000000002", "000000000000000x"), HasSubstr("not hexadecimal"));
  EXPECT_THAT(with("1, 2, 3, 4", "1, 2, 3"), HasSubstr("'boxes' has 3 numbers"));
  EXPECT_THAT(with("1, 2, 3, 4", "1, 2, 0, 4"), HasSubstr("a box is empty"));
  EXPECT_THAT(with("1, 2, 3, 4", "1, 2, 9223372036854775807, 4"), HasSubstr("64 bits"));
  EXPECT_THAT(with("\"tensor\": \"a\"", "\"tensor\": \"\""), HasSubstr("'tensor'"));
  EXPECT_THAT(with("\"format_version\": 1", "\"format_version\": 2"), HasSubstr("version 2"));
  EXPECT_THAT(with("phalanx-part", "other"), HasSubstr("'format' must be"));
}

// --- Coverage

TEST(Coverage, FindsWhatIsTwiceAndWhatIsMissing) {
  const Shape shape = {10, 10};
  const auto fault = [&](const std::vector<MatrixBox>& boxes) {
    std::vector<OwnedBox> owned;
    for (const MatrixBox& box : boxes) owned.push_back({box, std::ssize(owned)});
    return error_of<DataError>([&] { check_coverage("here", "w", shape, owned); });
  };
  EXPECT_EQ(fault({{0, 0, 10, 10}}), "no error");
  EXPECT_EQ(fault({{5, 0, 5, 10}, {0, 5, 5, 5}, {0, 0, 5, 5}}), "no error");
  EXPECT_THAT(fault({{0, 0, 10, 9}}), HasSubstr("have 90 of its 100"));
  EXPECT_THAT(fault({}), HasSubstr("have 0 of its 100"));
  // As many elements as the tensor has, but some twice.
  EXPECT_THAT(fault({{0, 0, 5, 10}, {4, 0, 5, 10}}), HasSubstr("by rank 0 and by rank 1"));
  EXPECT_THAT(fault({{0, 3, 10, 4}, {2, 0, 6, 10}}), HasSubstr("row 2 and column 3"));
  EXPECT_THAT(fault({{0, 0, 10, 11}}), HasSubstr("outside"));
  EXPECT_THAT(fault({{9, 0, 2, 10}}), HasSubstr("outside"));
}

// Against a count of every element, in random cuts with and without a fault.
TEST(Coverage, AgreesWithACount) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  int good = 0, bad = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<MatrixBox> boxes = {{0, 0, 1 + below(9), 1 + below(9)}};
    const Shape shape = {boxes[0].rows, boxes[0].columns};
    for (int cuts = 0; cuts < 6; ++cuts) {
      MatrixBox& box = boxes[static_cast<std::size_t>(below(std::ssize(boxes)))];
      MatrixBox rest = box;
      if (below(2) == 0) {
        box.rows = 1 + below(box.rows);
        rest.row += box.rows;
        rest.rows -= box.rows;
      } else {
        box.columns = 1 + below(box.columns);
        rest.column += box.columns;
        rest.columns -= box.columns;
      }
      if (rest.count() > 0) boxes.push_back(rest);
    }
    if (below(2) == 0) {  // one changes its place
      MatrixBox& box = boxes[static_cast<std::size_t>(below(std::ssize(boxes)))];
      box.row = below(shape[0] - box.rows + 1);
      box.column = below(shape[1] - box.columns + 1);
    }
    std::shuffle(boxes.begin(), boxes.end(), random);
    std::vector<int> times(static_cast<std::size_t>(shape.count()));
    std::vector<OwnedBox> owned;
    for (const MatrixBox& box : boxes) {
      owned.push_back({box, 0});
      for (std::int64_t row = box.row; row < box.row + box.rows; ++row) {
        for (std::int64_t column = box.column; column < box.column + box.columns; ++column) {
          ++times[static_cast<std::size_t>(row * shape[1] + column)];
        }
      }
    }
    const bool is_once = std::ranges::all_of(times, [](int n) { return n == 1; });
    (is_once ? good : bad) += 1;
    EXPECT_EQ(error_of<DataError>([&] { check_coverage("", "w", shape, owned); }) == "no error",
              is_once);
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(bad, 100);
}

}  // namespace
}  // namespace phalanx
