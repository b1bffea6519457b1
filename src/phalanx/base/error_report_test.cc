#include "phalanx/base/error_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::chrono::system_clock::time_point kNow{std::chrono::seconds(1700000000)};

TEST(ErrorReport, HasTheFieldsThatTorchrunReads) {
  EXPECT_EQ(
      error_report_json({.message = "rank 3 is gone",
                         .code = 75,
                         .rank = 2,
                         .culprit = ErrorReport::Culprit{3, "n07", "killed by SIGKILL"}},
                        kNow),
      "{\"message\": {\"message\": \"rank 3 is gone\", \"extraInfo\": {\"timestamp\": "
      "\"1700000000\"}}, \"code\": 75, \"rank\": 2, \"culprit\": {\"rank\": 3, \"host\": \"n07\", "
      "\"reason\": \"killed by SIGKILL\"}}\n");
  EXPECT_THAT(error_report_json({.message = "", .code = 64}, kNow),
              HasSubstr("\"code\": 64, \"rank\": -1, \"culprit\": null}"));
}

std::string message_json(const std::string& message) {
  const std::string json = error_report_json({.message = message}, kNow);
  const std::string before = R"({"message": {"message": )";
  const auto end = json.find(R"(, "extraInfo")");
  PHALANX_CHECK(json.starts_with(before) && end != std::string::npos, "{}", json);
  return json.substr(before.size(), end - before.size());
}

TEST(ErrorReport, TextsAreEscaped) {
  EXPECT_EQ(message_json(R"(a "b" \c)"), R"("a \"b\" \\c")");
  EXPECT_EQ(message_json("a\nb\t\x1b[31m\x7f"), R"("a\nb\u0009\u001b[31m\u007f")");
  EXPECT_EQ(message_json(std::string("a\0b", 3)), R"("a\u0000b")");
}

TEST(ErrorReport, InvalidUtf8IsReplaced) {
  EXPECT_EQ(message_json("ä€𝄞"), "\"ä€𝄞\"");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(message_json("\xff"), "\"" + bad + "\"");
  EXPECT_EQ(message_json("\xc3"), "\"" + bad + "\"");
  EXPECT_EQ(message_json("\xc3("), "\"" + bad + "(\"");
  EXPECT_EQ(message_json("\xc0\xaf"), "\"" + bad + bad + "\"");            // an overlong '/'
  EXPECT_EQ(message_json("\xed\xa0\x80"), "\"" + bad + bad + bad + "\"");  // a surrogate
  EXPECT_EQ(message_json("\xe2\x82\""), "\"" + bad + bad + "\\\"\"");
}

TEST(ErrorReport, LongTextsAreCut) {
  const std::string json = message_json(std::string(1 << 20, 'x'));
  EXPECT_LT(json.size(), 20000U);
  EXPECT_TRUE(json.ends_with("xxx...\""));
}

class ErrorFileTest : public testing::Test {
 protected:
  ~ErrorFileTest() override { ::unsetenv("TORCHELASTIC_ERROR_FILE"); }
  const TemporaryDirectory temporary_{"report"};
  const fs::path directory_ = temporary_.path();
};

TEST_F(ErrorFileTest, IsReplacedWhereTheEnvironmentNamesIt) {
  const fs::path path = directory_ / "error.json";
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  EXPECT_FALSE(write_error_report({.message = "a", .code = 70}));
  ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  EXPECT_TRUE(write_error_report({.message = "a", .code = 70}));
  EXPECT_TRUE(write_error_report({.message = "b", .code = 70}));
  EXPECT_THAT(read_file(path), HasSubstr("\"message\": \"b\""));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator{}), 1);
}

TEST_F(ErrorFileTest, AFailedWriteIsNoError) {
  ::setenv("TORCHELASTIC_ERROR_FILE", (directory_ / "none" / "error.json").c_str(), 1);
  EXPECT_FALSE(write_error_report({.message = "a", .code = 70}));
  ::setenv("TORCHELASTIC_ERROR_FILE", directory_.c_str(), 1);
  EXPECT_FALSE(write_error_report({.message = "a", .code = 70}));
  ::setenv("TORCHELASTIC_ERROR_FILE", "", 1);
  EXPECT_FALSE(write_error_report({.message = "a", .code = 70}));
}

}  // namespace
}  // namespace phalanx
