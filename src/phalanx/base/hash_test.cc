#include "phalanx/base/hash.h"

#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/unique_name.h"

namespace phalanx {
namespace {

// Known values of XXH3 with 64 bits and no seed (`printf abc | xxhsum -H3`).
TEST(Xxh3, KnownAnswers) {
  EXPECT_EQ(digest_to_text(xxh3(std::string_view())), "2d06800538d394c2");
  EXPECT_EQ(digest_to_text(xxh3(std::string_view("abc"))), "78af5f94892f3950");
}

TEST(Xxh3, PiecesGiveTheDigestOfTheWhole) {
  std::string text(5000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i);
  const auto bytes = std::as_bytes(std::span(text));
  Xxh3 hash;
  hash.update(bytes.first(1));
  hash.update({});
  hash.update(bytes.subspan(1, 3000));
  hash.update(bytes.subspan(3001));
  EXPECT_EQ(hash.digest(), xxh3(bytes));
}

TEST(Xxh3, TextForm) {
  EXPECT_EQ(digest_from_text("000000000000feed"), 0xfeedU);
  for (const auto* text : {"", "feed", "000000000000FEED", "000000000000feedx", "00000000000 feed",
                           "+00000000000feed", "0x0000000000feed"}) {
    EXPECT_FALSE(digest_from_text(text)) << text;
  }
}

TEST(Xxh3, Files) {
  const auto path = std::filesystem::temp_directory_path() / ("phalanx_hash_" + random_digits(8));
  EXPECT_THROW(digest_file(path), InputMissingError);
  write_file_durably(path, "abc");
  EXPECT_EQ(digest_file(path), (FileDigest{.bytes = 3, .xxh3 = 0x78af5f94892f3950U}));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace phalanx
