#include "phalanx/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "x.safetensors"; }

  // A file with this header and so many bytes of data.
  MappedSafetensors open(std::string_view header, std::size_t data_bytes) const {
    return open_bytes(raw(std::vector<std::uint64_t>{header.size()}) + std::string(header) +
                      std::string(data_bytes, 'd'));
  }
  MappedSafetensors open_bytes(std::string_view bytes) const {
    put_file(path(), bytes);
    return MappedSafetensors(path());
  }
  void expect_error(std::string_view header, std::size_t data_bytes,
                    std::string_view message) const {
    EXPECT_THAT(error_of<DataError>([&] { open(header, data_bytes); }),
                testing::AllOf(HasSubstr(message), HasSubstr(path().string())))
        << header;
  }

 private:
  TemporaryDirectory directory_{"safetensors"};
};

// Written by hand from the description of the format: 0x70 = 112 bytes of header with its padding.
std::string golden() {
  std::string header = R"({"b":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},)"
                       R"("a":{"dtype":"I32","shape":[],"data_offsets":[6,10]}})";
  header.resize(112, ' ');
  using namespace std::string_literals;
  return "\x70\0\0\0\0\0\0\0"s + header + "\x80\x3f\x00\x40\x40\x40"s + "\x2a\0\0\0"s;
}

TEST_F(SafetensorsTest, ReadsAFileWrittenByHand) {
  const auto file = open_bytes(golden());
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].name, "b");
  EXPECT_EQ(file.entries()[0].dtype, DType::kBF16);
  EXPECT_EQ(file.entries()[0].shape, Shape{3});
  EXPECT_EQ(as_text(file.bytes(file.entries()[0])), "\x80\x3f" + std::string("\0\x40\x40\x40", 4));
  const auto* scalar = file.find("a");
  ASSERT_NE(scalar, nullptr);
  EXPECT_EQ(scalar->shape.rank(), 0);
  EXPECT_EQ(element_as_double(*scalar->dtype, file.bytes(*scalar).data()), 42);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(SafetensorsTest, WritesTheSameBytes) {
  const std::vector<SafetensorsWriter::Item> items = {{"b", DType::kBF16, {3}},
                                                      {"a", DType::kI32, {}}};
  SafetensorsWriter writer(path(), items);
  const std::string data = golden().substr(120);
  writer.write(std::as_bytes(std::span(data).first(3)));
  writer.write(std::as_bytes(std::span(data).subspan(3)));
  const auto digest = writer.commit();
  EXPECT_EQ(read_file(path()), golden());
  EXPECT_EQ(digest, digest_file(path()));
}

TEST_F(SafetensorsTest, RoundTripsEveryTypeAndMetadata) {
  const std::vector<SafetensorsWriter::Item> items = {{"f64", DType::kF64, {2}},
                                                      {"f32", DType::kF32, {1, 2, 1}},
                                                      {"bf16", DType::kBF16, {2}},
                                                      {"f16", DType::kF16, {2}},
                                                      {"i64", DType::kI64, {2}},
                                                      {"i32", DType::kI32, {2}},
                                                      {"u8", DType::kU8, {3}},
                                                      {"empty", DType::kF32, {0, 7}},
                                                      {"a \"quoted\\ name\"", DType::kU8, {1}}};
  SafetensorsWriter writer(path(), items, {{"format", "phalanx"}, {"note", "a\n\"b\""}});
  std::string data;
  for (char c = 0; c < 60; ++c) data += c;
  writer.write(std::as_bytes(std::span(data)));
  writer.commit();

  const MappedSafetensors file(path());
  EXPECT_THAT(file.metadata(),
              ElementsAre(testing::Pair("format", "phalanx"), testing::Pair("note", "a\n\"b\"")));
  std::string read;
  for (const auto& item : items) {
    const auto* entry = file.find(item.name);
    ASSERT_NE(entry, nullptr) << item.name;
    EXPECT_EQ(entry->dtype, item.dtype);
    EXPECT_EQ(entry->shape, item.shape);
    read += as_text(file.bytes(*entry));
  }
  EXPECT_EQ(read, data);
  // The data starts at a multiple of eight bytes.
  EXPECT_EQ((file.file().size() - 60) % 8, 0);
}

TEST_F(SafetensorsTest, WriterWantsExactlyTheData) {
  const std::vector<SafetensorsWriter::Item> items = {{"a", DType::kU8, {4}}};
  const std::array<std::byte, 5> bytes{};
  {
    SafetensorsWriter writer(path(), items);
    EXPECT_THROW(writer.write(bytes), InternalError);
    writer.write(std::span(bytes).first(3));
    EXPECT_THROW(writer.commit(), InternalError);
  }
  EXPECT_FALSE(std::filesystem::exists(path()));
  for (const auto* name : {"", "__metadata__", "a\nb", "\xc3\xa9"}) {
    const std::vector<SafetensorsWriter::Item> bad = {{name, DType::kU8, {4}}};
    EXPECT_THROW(SafetensorsWriter(path(), bad), InternalError) << name;
  }
}

TEST_F(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string whole = golden();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(open_bytes(whole.substr(0, size)), DataError) << size;
  }
  EXPECT_THROW(open_bytes(whole + '\0'), DataError);
  EXPECT_THROW(SafetensorsFile(path().string() + ".none"), InputMissingError);
}

TEST_F(SafetensorsTest, MalformedHeaders) {
  const auto tensor = [](std::string_view fields) {
    return "{\"a\":{" + std::string(fields) + "}}";
  };
  const std::string_view good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_NO_THROW(open(tensor(good), 8));
  expect_error(tensor(good), 9, "1 bytes after the last tensor");
  expect_error(tensor(good), 7, "needs 8 bytes from byte 0 of the data, which has 7");
  expect_error("", 8, "not a JSON object");
  expect_error(" {}", 0, "not a JSON object");
  expect_error("[]", 8, "not a JSON object");
  expect_error("{", 8, "not JSON: line 1");
  expect_error("{}}", 0, "not JSON: line 1");
  expect_error("{\"a\":3}", 0, "tensor a: not a JSON object");
  expect_error("{\"\":{}}", 0, "name is empty");
  expect_error("{\"\\u0000\":{}}", 0, "not printable");
  expect_error("{\"" + std::string(1025, 'n') + "\":{}}", 0, "longer than 1024");
  expect_error("{\"\xff\":{}}", 0, "not JSON");
  expect_error(std::string("{\"a\":") + std::string(100, '[') + std::string(100, ']') + "}", 0,
               "nested deeper");
  expect_error(tensor(R"("shape":[2],"data_offsets":[0,8])"), 8, "'dtype' is missing");
  expect_error(tensor(R"("dtype":"F32","data_offsets":[0,8])"), 8, "'shape' is missing");
  expect_error(tensor(R"("dtype":"F32","shape":[2])"), 8, "'data_offsets' is missing");
  expect_error(tensor(R"("dtype":"F8","shape":[2],"data_offsets":[0,8])"), 8,
               "dtype \"F8\" is not known");
  expect_error(tensor(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), 8, "must be a string");
  expect_error(tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), 8, "must be a list");
  expect_error(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8, "'shape'");
  expect_error(tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), 8, "'shape'");
  expect_error(tensor(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), 8, "'shape'");
  expect_error(tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,2],"data_offsets":[0,8])"), 8,
               "7 extents");
  expect_error(tensor(std::string(good) + ",\"extra\":1"), 8, "key \"extra\" is unknown");
}

// They are there, and have a size and no values.
TEST_F(SafetensorsTest, TypesWithoutValues) {
  const auto file = open(R"({"mask":{"dtype":"BOOL","shape":[2,3],"data_offsets":[0,6]},)"
                         R"("wide":{"dtype":"U16","shape":[5],"data_offsets":[6,16]}})",
                         16);
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].type, "BOOL");
  EXPECT_EQ(file.entries()[0].dtype, std::nullopt);
  EXPECT_EQ(file.bytes(file.entries()[0]).size(), 6U);
  EXPECT_EQ(file.bytes(file.entries()[1]).size(), 10U);
  expect_error(R"({"a":{"dtype":"U16","shape":[5],"data_offsets":[0,5]}})", 5, "U16 [5] needs 10");
}

TEST_F(SafetensorsTest, LyingSizesAndRanges) {
  const auto with = [](std::string_view shape, std::string_view range) {
    return fmt::format(R"({{"a":{{"dtype":"F32","shape":{},"data_offsets":{}}}}})", shape, range);
  };
  expect_error(with("[2]", "[0]"), 8, "must be [begin, end]");
  expect_error(with("[2]", "[0,8,8]"), 8, "must be [begin, end]");
  expect_error(with("[2]", "[8,0]"), 8, "must be [begin, end]");
  expect_error(with("[2]", "[-8,0]"), 8, "'data_offsets'");
  expect_error(with("[2]", "[0,4]"), 4, "hold 4 bytes, F32 [2] needs 8");
  expect_error(with("[2]", "[4,12]"), 12, "bytes 0 to 4 belong to no tensor");
  expect_error(with("[2]", "[0,1e400]"), 8, "out of range");
  expect_error(with("[2]", "[0,18446744073709551615]"), 8, "'data_offsets'");
  expect_error(with("[2]", "[9223372036854775799,9223372036854775807]"), 8, "belong to no tensor");
  expect_error(with("[4611686018427387904]", "[0,8]"), 8, "does not fit in 64 bits");
  expect_error(with("[4294967296,4294967296]", "[0,0]"), 0, "does not fit in 64 bits");
  expect_error(with("[4294967296,4294967296,0]", "[0,0]"), 0, "does not fit in 64 bits");
  expect_error(with("[2305843009213693951]", "[0,9223372036854775804]"), 8, "which has 8");
  EXPECT_NO_THROW(open(with("[0,5]", "[0,0]"), 0));
}

TEST_F(SafetensorsTest, TensorsMayNotOverlapOrLeaveHoles) {
  const auto two = [](int a_begin, int a_end, int b_begin, int b_end) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                       R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                       a_end - a_begin, a_begin, a_end, b_end - b_begin, b_begin, b_end);
  };
  EXPECT_NO_THROW(open(two(4, 8, 0, 4), 8));
  EXPECT_NO_THROW(open(two(0, 8, 0, 0), 8));  // an empty tensor may be anywhere between two
  EXPECT_NO_THROW(open(two(0, 8, 8, 8), 8));
  expect_error(two(0, 5, 4, 8), 8, "inside another tensor");
  expect_error(two(0, 4, 0, 4), 4, "inside another tensor");
  expect_error(two(0, 8, 2, 4), 8, "inside another tensor");
  expect_error(two(0, 3, 4, 8), 8, "belong to no tensor");
  expect_error(two(0, 8, 4, 4), 8, "inside another tensor");
}

TEST_F(SafetensorsTest, KeysMayNotComeTwice) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_error("{" + a + "," + a + "}", 1, "key \"a\" comes twice");
  expect_error(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
               "key \"dtype\" comes twice");
  expect_error(R"({"__metadata__":{"x":"1","x":"2"}})", 0, "key \"x\" comes twice");
  expect_error(R"({"__metadata__":{"x":1}})", 0, "'x' must be a string");
  expect_error(R"({"__metadata__":[]})", 0, "not a JSON object");
}

TEST_F(SafetensorsTest, HugeHeaderLengths) {
  const std::string rest = "{}" + std::string(100, ' ');
  for (const std::uint64_t length :
       {std::uint64_t{103}, std::uint64_t{1} << 24, (std::uint64_t{1} << 24) + 1,
        std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    EXPECT_THROW(open_bytes(raw(std::vector<std::uint64_t>{length}) + rest), DataError) << length;
  }
  EXPECT_NO_THROW(open_bytes(raw(std::vector<std::uint64_t>{102}) + rest));
}

// A mixture of thousands of experts: what is written can be read again.
TEST_F(SafetensorsTest, LongHeaders) {
  std::vector<SafetensorsWriter::Item> items;
  for (int i = 0; i < 18000; ++i) {
    items.push_back({std::to_string(i) + std::string(960, 'x'), DType::kU8, {0}});
  }
  SafetensorsWriter(path(), items).commit();
  EXPECT_GT(std::filesystem::file_size(path()), 17 << 20);
  EXPECT_EQ(SafetensorsFile(path()).entries().size(), items.size());
}

// Whatever is in a file: it is read, every tensor inside it, or there is one clear error.
TEST_F(SafetensorsTest, RandomDamage) {
  std::mt19937 random(1);  // NOLINT: the same damage each time
  const std::string whole = golden();
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (std::uint32_t n = 0; n <= random() % 4; ++n) {
      // Mostly in the header, for the data has nothing to check.
      const std::size_t at = random() % (random() % 8 == 0 ? bytes.size() : std::size_t{118});
      bytes[at] = random() % 2 == 0 ? static_cast<char>(random()) : "[]{},:\"0129-"[random() % 12];
    }
    try {
      const auto file = open_bytes(bytes);
      for (const auto& entry : file.entries()) {
        read += std::ssize(file.bytes(entry)) == entry.bytes ? 1 : 0;
      }
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path().string()));
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace phalanx
