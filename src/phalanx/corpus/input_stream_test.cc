#include "phalanx/corpus/input_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "phalanx/corpus/test_support.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::AllOf;
using testing::gzip_of;
using ::testing::HasSubstr;
using testing::zstd_of;

std::string read_all(CorpusInput& input, std::size_t piece = 7001) {
  std::string text;
  std::string buffer(piece, '\0');
  while (const std::size_t got = input.read(buffer)) text.append(buffer, 0, got);
  return text;
}

// Several buffers of it, compressed or not.
const std::string& long_text() {
  static const std::string text = [] {
    std::mt19937 random(3);
    std::string made;
    while (made.size() < 900'000) made += std::to_string(random()) + "\n";
    return made;
  }();
  return text;
}

class CorpusInputTest : public ::testing::Test {
 protected:
  std::string add(std::string_view bytes) {
    put_file(directory_ / "file", bytes);
    return directory_ / "file";
  }
  std::string text_of(std::string_view bytes) {
    CorpusInput input(add(bytes));
    auto text = read_all(input);
    EXPECT_EQ(input.size(), static_cast<std::int64_t>(bytes.size()));
    EXPECT_EQ(input.position(), input.size());
    return text;
  }
  std::string fault_of(std::string_view bytes, ErrorCode code = ErrorCode::kBadData) {
    CorpusInput input(add(bytes));
    return error_of(code, [&] { read_all(input); });
  }
  TemporaryDirectory directory_;
};

TEST_F(CorpusInputTest, ContentsDecideHowItIsRead) {
  const std::string& text = long_text();
  EXPECT_EQ(text_of(text), text);
  EXPECT_EQ(text_of(gzip_of(text)), text);
  EXPECT_EQ(text_of(zstd_of(text)), text);
  EXPECT_EQ(CorpusInput(add(gzip_of("a"))).compression(), Compression::kGzip);
  EXPECT_EQ(CorpusInput(add(zstd_of("a"))).compression(), Compression::kZstd);
  for (const char* small : {"", "a", "\x1f", "\x1f\x8b", "\x28\xb5\x2f"}) {
    EXPECT_EQ(text_of(small), small);
  }
}

TEST_F(CorpusInputTest, PartsOneBehindAnother) {
  const std::string& text = long_text();
  EXPECT_EQ(text_of(gzip_of("one ") + gzip_of("") + gzip_of(text)), "one " + text);
  EXPECT_EQ(text_of(zstd_of("one ") + zstd_of("") + zstd_of(text)), "one " + text);
  EXPECT_EQ(text_of(gzip_of("padded") + std::string(300'000, '\0')), "padded");
  const std::string skippable("\x52\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(text_of(skippable + zstd_of("one")), "one");
}

TEST_F(CorpusInputTest, WhatIsCutShortIsSaid) {
  for (const auto& whole : {gzip_of(long_text()), zstd_of(long_text())}) {
    for (const std::size_t size :
         {std::size_t{4}, std::size_t{20}, whole.size() / 2, whole.size() - 9, whole.size() - 1}) {
      EXPECT_THAT(
          fault_of(whole.substr(0, size)),
          AllOf(HasSubstr("/file: "), HasSubstr("ends early, at byte " + std::to_string(size))));
    }
  }
}

TEST_F(CorpusInputTest, DamageIsSaid) {
  std::string gzip = gzip_of(long_text());
  gzip[gzip.size() - 6] ^= 1;  // of the checksum
  EXPECT_THAT(fault_of(gzip), AllOf(HasSubstr("damaged gzip data at byte"), HasSubstr("/file")));
  EXPECT_THAT(fault_of(gzip_of("a") + "rest"), HasSubstr("is no gzip data"));
  EXPECT_THAT(fault_of(gzip_of("a") + std::string(1, '\0') + gzip_of("b")),
              HasSubstr("is no gzip data"));
  std::string zstd = zstd_of(long_text());
  zstd[8] ^= 0x7f;
  EXPECT_THAT(fault_of(zstd), HasSubstr("damaged zstd data at byte"));
  EXPECT_THAT(fault_of(zstd_of("a") + "rest"), HasSubstr("damaged zstd data"));
}

// Any damage is an error or a text, never more.
TEST_F(CorpusInputTest, AnyDamageEnds) {
  std::mt19937 random(5);
  const std::string text = long_text().substr(0, 3000);
  for (const auto& whole : {gzip_of(text), zstd_of(text)}) {
    for (int i = 0; i < 100; ++i) {
      std::string damaged = whole;
      damaged[4 + random() % (damaged.size() - 4)] ^= static_cast<char>(1 + random() % 255);
      CorpusInput input(add(damaged));
      try {
        read_all(input);
      } catch (const DataError&) {
      }
    }
  }
}

TEST_F(CorpusInputTest, RangesOfPlainFiles) {
  const std::string& text = long_text();
  const auto path = add(text);
  for (const auto& [begin, end] :
       {std::pair{0, 0}, {0, 5}, {3, 3}, {7, 800'000}, {100, -1}, {899'990, -1}}) {
    CorpusInput input(path, {begin, end});
    const auto last = end < 0 ? static_cast<int>(text.size()) : end;
    EXPECT_EQ(read_all(input), text.substr(begin, last - begin));
    EXPECT_EQ(input.size(), last - begin);
  }
  CorpusInput beyond(path, {10, static_cast<std::int64_t>(text.size()) + 1});
  EXPECT_THAT(error_of(ErrorCode::kIo, [&] { read_all(beyond); }), HasSubstr("became shorter"));
}

TEST_F(CorpusInputTest, PeekingTakesNothing) {
  const std::string& text = long_text();
  for (const auto& bytes : {text, gzip_of(text), zstd_of(text)}) {
    CorpusInput input(add(bytes));
    const bool is_plain = input.compression() == Compression::kNone;
    EXPECT_EQ(input.peek(3), text.substr(0, 3));
    EXPECT_EQ(input.peek(100'000), text.substr(0, 100'000));
    EXPECT_EQ(input.peek(5), text.substr(0, 5));
    EXPECT_EQ(input.position() == 0, is_plain);
    std::string begin(1000, '\0');
    EXPECT_EQ(input.read(begin), 1000U);
    EXPECT_EQ(input.position() == 1000, is_plain);
    EXPECT_EQ(input.peek(4), text.substr(1000, 4));
    EXPECT_EQ(begin + read_all(input), text);
    EXPECT_EQ(input.peek(4), "");
    EXPECT_EQ(input.position(), input.size());
  }
  EXPECT_EQ(CorpusInput(add("abc")).peek(9), "abc");
  CorpusInput part(add(text), {10, 20});
  EXPECT_EQ(part.peek(100), text.substr(10, 10));
}

TEST_F(CorpusInputTest, WhatIsNoFile) {
  EXPECT_THAT(error_of(ErrorCode::kInputMissing, [&] { CorpusInput input(directory_ / ""); }),
              HasSubstr("is a directory"));
  error_of(ErrorCode::kInputMissing, [&] { corpus_input_size(directory_ / ""); });
  error_of(ErrorCode::kInputMissing, [&] { CorpusInput input(directory_ / "none"); });
  error_of(ErrorCode::kInputMissing, [&] { corpus_input_size(directory_ / "none"); });
  EXPECT_EQ(corpus_input_size(add("abc")), 3);
}

// A pipe is read as it is filled, and a reader that waits can be told to leave.
TEST_F(CorpusInputTest, Pipes) {
  const auto path = directory_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(corpus_input_size(path), -1);
  std::atomic<bool> stop = false;
  std::atomic<bool> written = false;
  std::jthread writer([&] {
    std::ofstream pipe(path, std::ios::binary);
    pipe << gzip_of(long_text()) << std::flush;
    written = true;
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CorpusInput input(path, {}, [&] { return stop.load(); });
  EXPECT_EQ(input.size(), -1);
  std::string text;
  std::string buffer(100'000, '\0');
  while (text.size() < long_text().size()) text.append(buffer, 0, input.read(buffer));
  EXPECT_EQ(text, long_text());
  stop = true;
  EXPECT_EQ(input.read(buffer), 0U);
}

}  // namespace
}  // namespace phalanx
