#include "phalanx/flag_table/deepspeed/json_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx::deepspeed {
namespace {

std::string fault_of(std::string_view text) {
  return error_of<DataError>([&] { parse_settings(text, "ds.json"); });
}

TEST(DeepspeedJson, ReadsObjects) {
  const auto json =
      parse_settings("{\"a\": {\"b\": [1, 2.5]}, \"c\": null, \"a.b\": 1}", "ds.json");
  EXPECT_EQ(json["a"]["b"][1], 2.5);
  EXPECT_TRUE(parse_settings("{}", "ds.json").empty());
}

TEST(DeepspeedJson, SaysWhatIsNoJsonAndWhere) {
  for (const auto& [text, error] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{\n  // a batch\n  \"a\": 1}", "ds.json:2:3: a comment, which JSON does not have"},
           {"{\"a\": 1 /* one */}", "ds.json:1:9: a comment"},
           {"{\"a\": 1} # end", "ds.json:1:10: a comment"},
           {"{\"a\": 1,\n}", "ds.json:2:1: a comma before }, which JSON does not have: remove it"},
           {"{\"a\": [1, ]}", "ds.json:1:11: a comma before ], which"},
           {"{'a': 1}", "ds.json:1:2: JSON has text in double quotes"},
           {"{\"a\": 1", "ds.json:1:8: the file ends before its last bracket"},
           {" \n", "the file is empty"},
           {"", "the file is empty"},
           {"{\"a\" 1}", "ds.json:1:6: this is no JSON"},
           {"{\"a\": 1} {}", "ds.json:1:10: this is no JSON"},
           {"{\"a\": True}", "ds.json:1:7: this is no JSON"},
           {"{\"a\": 1e999}", "this is no JSON"},
           {"{\"a\": \"\xff\"}", "this is no JSON"},
           {"[1]", "ds.json: [1] is no object: settings stand between { and }"}}) {
    EXPECT_NE(fault_of(text).find(error), std::string::npos) << text << "\n" << fault_of(text);
  }
}

TEST(DeepspeedJson, AKeyComesOnce) {
  EXPECT_EQ(fault_of(R"({"a": {"b": [{"c": 1}], "b": 2}})"),
            "ds.json: a.b comes twice: keep one of them");
  EXPECT_EQ(fault_of(R"({"a": [1, {"b": 1, "b": 1}]})"),
            "ds.json: a.b comes twice: keep one of them");
  EXPECT_EQ(fault_of("{\"a\\n\": 1, \"a\\n\": 1}"),
            "ds.json: \"a\\n\" comes twice: keep one of them");
  EXPECT_EQ(fault_of(R"({"a": {"b": 1}, "c": {"b": 1}})"), "no error");
}

TEST(DeepspeedJson, IsBounded) {
  const auto nested = [](int depth) {
    std::string text = "{\"a\":";
    for (int i = 1; i < depth; ++i) text += '[';
    for (int i = 1; i < depth; ++i) text += ']';
    return text + "}";
  };
  EXPECT_EQ(fault_of(nested(kMostDepth)), "no error");
  EXPECT_EQ(fault_of(nested(kMostDepth + 1)),
            "ds.json: more than 16 objects and lists within each other");
  EXPECT_NE(fault_of(nested(100000)).find("more than 16"), std::string::npos);
  EXPECT_NE(fault_of(std::string(kMostBytes + 1, ' ')).find("is this the right file?"),
            std::string::npos);
}

TEST(DeepspeedJson, ReadsRegularFiles) {
  const auto folder = std::filesystem::temp_directory_path();
  EXPECT_THROW(read_settings(folder.string()), DataError);
  EXPECT_THROW(read_settings((folder / fmt::format("no_{}.json", ::getpid())).string()),
               InputMissingError);
}

TEST(DeepspeedJson, ShowsWhatFitsOnALine) {
  EXPECT_EQ(shown_path("a.b_c"), "a.b_c");
  EXPECT_EQ(shown_path("a b"), "\"a b\"");
  EXPECT_EQ(shown_path(""), "\"\"");
  EXPECT_LT(shown_path(std::string(1000, 'x')).size(), 200U);
}

}  // namespace
}  // namespace phalanx::deepspeed
