#include "phalanx/tokenizer/sentencepiece_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/sentencepiece_engine.h"
#include "phalanx/tokenizer/sentencepiece_test_files.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using namespace tokenizer_test;
using testing::HasSubstr;

using Algorithm = SentencePieceModel::Algorithm;

std::string fault_of(const std::string& bytes) {
  return error_of<DataError>([&] { parse_sentencepiece_model(bytes, "x.model"); });
}
std::string fault_of(const SentencePieceModel& model) { return fault_of(model_bytes(model)); }

TEST(SentencePieceModel, ReadsTheNeededFields) {
  SentencePieceModel model = byte_fallback_model();
  model.whitespace_as_suffix = true;
  model.unknown_surface = "?";
  model.denormalizer = NormalizerRules{.characters_map = "map", .add_dummy_prefix = false};
  // Unknown fields are skipped.
  const std::string unknown_fields =
      number_field(99, 5) + bytes_field(77, "x") + real_field(88, 1) + "I12345678";
  const SentencePieceModel read =
      parse_sentencepiece_model(unknown_fields + model_bytes(model), "x.model");
  ASSERT_EQ(read.pieces.size(), model.pieces.size());
  EXPECT_EQ(read.pieces[264].text, "▁a");
  EXPECT_EQ(read.pieces[264].score, -1);
  EXPECT_EQ(read.pieces[4].kind, PieceKind::kByte);
  EXPECT_EQ(read.algorithm, Algorithm::kBpe);
  EXPECT_TRUE(read.whitespace_as_suffix && read.byte_fallback);
  EXPECT_EQ(read.unknown_surface, "?");
  EXPECT_FALSE(read.normalizer.remove_extra_whitespaces);
  EXPECT_TRUE(read.normalizer.add_dummy_prefix);
  EXPECT_EQ(read.denormalizer->characters_map, "map");
  EXPECT_EQ(read.unknown, 0);
  EXPECT_EQ(read.bos, 1);
  EXPECT_EQ(read.eos, 2);
  EXPECT_EQ(read.pad, std::nullopt);
  EXPECT_EQ(read.byte_ids.at(255), 258);
}

TEST(SentencePieceModel, AbsentFieldsHaveDefaults) {
  const std::string bytes = bytes_field(1, bytes_field(1, "<unk>") + number_field(3, 2)) +
                            bytes_field(1, bytes_field(1, "begin") + number_field(3, 3)) +
                            bytes_field(1, bytes_field(1, "a")) +
                            bytes_field(2, bytes_field(46, "begin"));
  const SentencePieceModel model = parse_sentencepiece_model(bytes, "x.model");
  EXPECT_EQ(model.algorithm, Algorithm::kUnigram);
  EXPECT_EQ(model.pieces[2].kind, PieceKind::kNormal);
  EXPECT_EQ(model.bos, 1);
  EXPECT_EQ(model.eos, std::nullopt);
  EXPECT_TRUE(model.normalizer.add_dummy_prefix && model.normalizer.escape_whitespaces &&
              model.normalizer.remove_extra_whitespaces);
  EXPECT_EQ(model.unknown_surface, " ⁇ ");
}

TEST(SentencePieceModel, NamesTheFault) {
  const auto of = [](const std::vector<SentencePiece>& pieces) {
    return fault_of(small_model(Algorithm::kBpe, pieces));
  };
  EXPECT_THAT(of({{"a"}, {"b"}, {"a"}}), HasSubstr("pieces 3 and 5 are the same"));
  EXPECT_THAT(of({{"a"}, {""}}), HasSubstr("piece 4 is empty"));
  EXPECT_THAT(of({{std::string("a\0", 2)}}), HasSubstr("piece 3 holds a zero byte"));
  EXPECT_THAT(of({{"a", std::numeric_limits<float>::quiet_NaN()}}),
              HasSubstr("the score of piece 3 is nan"));
  EXPECT_THAT(of({{"a", 0, static_cast<PieceKind>(7)}}), HasSubstr("unknown type 7"));
  EXPECT_THAT(of({{"u", 0, PieceKind::kUnknown}}), HasSubstr("pieces 0 and 3 are unknown ones"));
  EXPECT_THAT(of({{"<0x0A>", 0, PieceKind::kByte}}), HasSubstr("there are 1 pieces of bytes"));
  EXPECT_THAT(of({{"<0x0a>", 0, PieceKind::kByte}}), HasSubstr("piece 3 is no byte"));
  EXPECT_THAT(fault_of(SentencePieceModel{}),
              HasSubstr("x.model is no SentencePiece model: there"));
  EXPECT_THAT(fault_of(SentencePieceModel{.pieces = {{"a"}}}),
              HasSubstr("no piece is the unknown"));

  SentencePieceModel fallback = byte_fallback_model();
  fallback.pieces[70].kind = PieceKind::kNormal;
  EXPECT_THAT(fault_of(fallback), HasSubstr("there are 255 pieces of bytes"));

  const std::string good = model_bytes(small_model(Algorithm::kBpe, {{"a"}}));
  EXPECT_THAT(fault_of(good + bytes_field(2, number_field(3, 3))), HasSubstr("3 (word)"));
  EXPECT_THAT(fault_of(good + number_field(1, 3)), HasSubstr("wire type 0 instead of 2"));
  EXPECT_THAT(fault_of(good + "\x0b"), HasSubstr("field 1 has the unknown wire type 3"));
  EXPECT_THAT(fault_of(good + varint_bytes(2)), HasSubstr("the number 0"));
  EXPECT_THAT(fault_of(good + "\x0a\xff\xff\x03"),
              HasSubstr("a field of 65535 bytes begins where 0 are left"));
  EXPECT_THAT(fault_of(good + std::string(11, '\xff')), HasSubstr("more than ten bytes"));
  EXPECT_THAT(fault_of("{\"model\": 1}"), HasSubstr("x.model is no SentencePiece model"));
}

// A damaged file is refused, or it is read and can be used.
TEST(SentencePieceModel, DamagedFiles) {
  SentencePieceModel model = small_model(Algorithm::kUnigram, {{"▁", -2},
                                                               {"a", -3},
                                                               {"▁a", -4},
                                                               {"<x>", 0, PieceKind::kUserDefined},
                                                               {"é", -5},
                                                               {"aé", -9, PieceKind::kUnused}});
  model.normalizer.characters_map = compiled_map({{"A", "a"}, {"\u3000", " "}, {"é", "e\u0301"}});
  model.denormalizer = model.normalizer;
  const std::string good = model_bytes(model);
  std::uint32_t state = 7;
  const auto random = [&](std::size_t limit) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % limit;
  };
  const std::size_t head = good.find("by hand");
  int read = 0;
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    if (round % 4 == 0) {
      bytes.resize(random(good.size()));
    } else {
      const std::size_t range = round % 4 == 1 ? head : good.size();
      for (std::size_t i = 0; i <= random(3); ++i) {
        bytes[random(range)] ^= static_cast<char>(1U << random(8));
      }
    }
    try {
      const SentencePieceEngine engine(parse_sentencepiece_model(bytes, "x.model"), "x.model");
      std::vector<std::int32_t> ids;
      engine.encode("a<x> A\u3000é\xff aaé <s>", ids);
      for (const std::int32_t id : ids) {
        ASSERT_TRUE(id >= 0 && id < std::ssize(engine.model().pieces));
      }
      engine.decode(ids);
      ++read;
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace phalanx
