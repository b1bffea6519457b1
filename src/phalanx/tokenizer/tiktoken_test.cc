#include "phalanx/tokenizer/tiktoken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tokenizer_test::VocabularyDirectory;

using Ids = std::vector<std::int32_t>;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[bits >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return text;
}

// All 256 bytes in order, then some longer tokens.
std::vector<std::string> tokens() {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  for (const char* token : {"ab", "bc", "abc", " a", "aa", "123", "12", "he", "the", " the", "\n\n",
                            "'s", "'S", "\u00e9"}) {
    all.emplace_back(token);
  }
  return all;
}

std::string rank_lines(const std::vector<std::string>& all) {
  std::string text;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    text += base64(all[rank]) + " " + std::to_string(rank) + "\n";
  }
  return text;
}

std::string rank_json(const std::vector<std::string>& all) {
  auto list = nlohmann::json::array();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    list.push_back({{"rank", rank}, {"token_bytes", base64(all[rank])}, {"token_str", ""}});
  }
  return list.dump();
}

class TiktokenTest : public testing::Test {
 protected:
  TokenizerOptions options(std::string_view pattern) const {
    return {.tokenizer_type = "tiktoken",
            .tokenizer_model = file_.string(),
            .tiktoken_pattern = std::string(pattern),
            .tiktoken_special_tokens = {"<|end|>=300"}};
  }
  TokenizerOptions megatron_options() const {
    return {.tokenizer_type = "TikTokenizer",
            .tokenizer_model = json_.string(),
            .vocab_size = 300,
            .tiktoken_pattern = "v2",
            .tiktoken_num_special_tokens = 10};
  }
  // The error messages for files with these contents; they must name the file.
  std::string lines_error(const std::string& text) const {
    directory_.write("ranks.tiktoken", text);
    std::string message = error_of<DataError>([&] { make_tokenizer(options("gpt2")); });
    EXPECT_THAT(message, testing::StartsWith(file_.string()));
    return message;
  }
  std::string json_error(const std::string& text) const {
    directory_.write("ranks.json", text);
    std::string message = error_of<DataError>([&] { make_tokenizer(megatron_options()); });
    EXPECT_THAT(message, testing::StartsWith(json_.string()));
    return message;
  }

  VocabularyDirectory directory_;
  std::filesystem::path file_ = directory_.write("ranks.tiktoken", rank_lines(tokens()));
  std::filesystem::path json_ = directory_.write("ranks.json", rank_json(tokens()));
};

// Expected: ids of tiktoken 0.14.
TEST_F(TiktokenTest, AgreesWithTiktoken) {
  const auto llama = make_tokenizer(options("llama3"));
  EXPECT_EQ(llama->vocab_size(), 301);
  EXPECT_EQ(llama->encode("aabc"), (Ids{97, 258}));
  EXPECT_EQ(llama->encode("aaaa"), (Ids{260, 260}));
  EXPECT_EQ(llama->encode(" abc the"), (Ids{32, 258, 265}));
  EXPECT_EQ(llama->encode("1234 12345"), (Ids{261, 52, 32, 261, 52, 53}));
  EXPECT_EQ(llama->encode("he's HE'S"), (Ids{263, 267, 32, 72, 69, 268}));
  EXPECT_EQ(make_tokenizer(options("gpt2"))->encode("he's HE'S"),
            (Ids{263, 267, 32, 72, 69, 39, 83}));
  EXPECT_EQ(llama->encode("a\n\n\nb"), (Ids{97, 266, 10, 98}));
  EXPECT_EQ(llama->encode("a  b  "), (Ids{97, 32, 32, 98, 32, 32}));
  EXPECT_EQ(llama->encode("<|end|>x"), (Ids{60, 124, 101, 110, 100, 124, 62, 120}));
  EXPECT_EQ(llama->encode("<|end|>x", {.parse_special = true}), (Ids{300, 120}));
  EXPECT_EQ(llama->encode("a<|end<|end|>", {.parse_special = true}),
            (Ids{97, 60, 124, 101, 110, 100, 300}));
  EXPECT_EQ(llama->decode(Ids{263, 267, 300, 269}), "he's<|end|>\u00e9");
  EXPECT_EQ(llama->decode(Ids{263, 300, 290}, {.skip_special = true}), "he");
  EXPECT_EQ(llama->piece(265), "\u0120the");
  EXPECT_EQ(llama->piece(300), "<|end|>");
  EXPECT_EQ(llama->piece(290), "");
  EXPECT_EQ(llama->end_of_document(), -1);
  for (const std::int32_t id : {-1, 301}) {
    EXPECT_THAT(error_of<DataError>([&] { llama->piece(id); }), HasSubstr("0 to 300"));
  }
}

TEST_F(TiktokenTest, AnyBytesRoundTrip) {
  const auto tokenizer = make_tokenizer(options("o200k"));
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::size_t n = random() % 30; n > 0; --n) text.push_back(static_cast<char>(random()));
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST_F(TiktokenTest, SpecialTokensCountUp) {
  TokenizerOptions given = options("cl100k");
  given.tiktoken_special_tokens = {"<a>", "<|endoftext|>=400", "<b=c>", "<a>b"};
  const auto tokenizer = make_tokenizer(given);
  EXPECT_EQ(tokenizer->vocab_size(), 403);
  EXPECT_EQ(tokenizer->end_of_document(), 400);
  EXPECT_EQ(tokenizer->encode("<a><a>b<b=c>", {.parse_special = true}), (Ids{270, 402, 401}));
  const auto error = [&](const std::vector<std::string>& names) {
    given.tiktoken_special_tokens = names;
    return error_of<ConfigError>([&] { make_tokenizer(given); });
  };
  EXPECT_THAT(error({"<a>=5"}), HasSubstr("cannot have the id 5, which is a rank of the file"));
  EXPECT_THAT(error({"<a>", "<b>=270"}), HasSubstr("'<b>=270' cannot have the id 270"));
  EXPECT_THAT(error({"<a>", "<a>"}), HasSubstr("'<a>' comes twice"));
  EXPECT_THAT(error({"=300"}), HasSubstr("empty"));
  EXPECT_THAT(error({"<a>=-1"}), HasSubstr("cannot have the id -1"));
  EXPECT_THAT(error({"<a>=2147483647"}), HasSubstr("cannot have the id 2147483647"));
}

TEST_F(TiktokenTest, MegatronPutsSpecialTokensFirst) {
  const auto tokenizer = make_tokenizer(megatron_options());
  EXPECT_EQ(tokenizer->vocab_size(), 300);
  EXPECT_EQ(tokenizer->end_of_document(), 2);
  EXPECT_EQ(tokenizer->special_tokens().bos, 1);
  EXPECT_EQ(tokenizer->special_tokens().unk, 0);
  EXPECT_EQ(tokenizer->encode("aabc 12"), (Ids{107, 268, 42, 59, 60}));
  EXPECT_EQ(tokenizer->encode("<SPECIAL_9></s>", {.parse_special = true}), (Ids{9, 2}));
  EXPECT_EQ(tokenizer->piece(9), "<SPECIAL_9>");
  EXPECT_EQ(tokenizer->piece(280), "");  // after the ranks

  TokenizerOptions cut = megatron_options();
  cut.vocab_size = 268;  // without "abc", "bc" and ids above
  EXPECT_EQ(make_tokenizer(cut)->encode("abc"), (Ids{266, 109}));
  EXPECT_EQ(make_tokenizer(cut)->vocab_size(), 268);
  TokenizerOptions usual = megatron_options();
  usual.vocab_size = 0;
  usual.tiktoken_num_special_tokens = 1000;
  EXPECT_EQ(make_tokenizer(usual)->vocab_size(), 131072);
}

TEST_F(TiktokenTest, InvalidOptions) {
  const auto error = [](const TokenizerOptions& options) {
    return error_of<ConfigError>([&] { make_tokenizer(options); });
  };
  TokenizerOptions wrong = megatron_options();
  wrong.tiktoken_pattern = "llama3";
  EXPECT_THAT(error(wrong), HasSubstr("--tiktoken-pattern llama3 does not belong to TikTokenizer"));
  wrong = megatron_options();
  wrong.vocab_size = 265;
  EXPECT_THAT(error(wrong), AllOf(HasSubstr("--vocab-size 265"), HasSubstr("need 266")));
  wrong = megatron_options();
  wrong.tiktoken_special_tokens = {"<unk>", "<s>"};
  EXPECT_THAT(error(wrong), HasSubstr("</s> is missing"));
  wrong.tiktoken_special_tokens = {"<unk>", "<s>", "</s>"};
  wrong.tiktoken_num_special_tokens = 2;
  EXPECT_THAT(error(wrong), HasSubstr("--tiktoken-num-special-tokens 2 is less than the 3"));
  wrong = options("gpt2");
  wrong.tiktoken_num_special_tokens = 5;
  EXPECT_THAT(error(wrong), HasSubstr("--tiktoken-num-special-tokens does not belong to tiktoken"));
  wrong = options("gpt2");
  wrong.tiktoken_pattern = "gpt4";
  EXPECT_THAT(error(wrong), HasSubstr("'gpt4' is not one of"));
}

TEST_F(TiktokenTest, BrokenFilesAreErrors) {
  const std::string good = rank_lines(tokens());
  EXPECT_THAT(lines_error(""), HasSubstr("byte 0x00 is missing"));
  EXPECT_THAT(lines_error("AA=="), HasSubstr("line 1: expected a token in base64"));
  EXPECT_THAT(lines_error("AA== x"), HasSubstr("line 1: expected a token in base64"));
  EXPECT_THAT(lines_error("AA== -1"), HasSubstr("line 1: expected a token in base64"));
  EXPECT_THAT(lines_error("A=== 1"), HasSubstr("line 1: 'A===' is not base64"));
  EXPECT_THAT(lines_error("A*A= 1"), HasSubstr("line 1: 'A*A=' is not base64"));
  EXPECT_THAT(lines_error(" 1"), HasSubstr("line 1: the token is empty"));
  EXPECT_THAT(lines_error(good + "eHl6 5"), HasSubstr("line 271: rank 5 again"));
  EXPECT_THAT(lines_error(good + "YWI= 270"), HasSubstr("line 271: the token YWI= again"));
  EXPECT_THAT(lines_error(good + "eHl6 4000000000"), HasSubstr("rank 4000000000 is too large"));
  EXPECT_THAT(lines_error(good + base64(std::string(2000, 'x')) + " 270"),
              HasSubstr("2000 bytes; the limit is 1024"));
  EXPECT_THAT(lines_error(good.substr(good.find('\n') + 1)), HasSubstr("byte 0x00 is missing"));
  directory_.write("ranks.tiktoken", good + "\r\neHl6 280\r\n\n");
  EXPECT_EQ(make_tokenizer(options("gpt2"))->encode("xyz"), Ids{280});

  EXPECT_THAT(json_error("[}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(json_error("{}"), HasSubstr("expected a JSON list"));
  EXPECT_THAT(json_error("[5]"), HasSubstr("entry 0: expected an object"));
  EXPECT_THAT(json_error(R"([{"rank": 0, "token_bytes": 5}])"), HasSubstr("entry 0: expected"));
  EXPECT_THAT(json_error(R"([{"rank": 1, "token_bytes": "AA=="}])"),
              HasSubstr("entry 0: rank 1; ranks count up from 0"));
  EXPECT_THAT(json_error(R"([{"rank": 0, "token_bytes": "AA"}])"),
              HasSubstr("entry 0: 'AA' is not base64"));
  EXPECT_THAT(json_error(R"([{"rank": 0, "token_bytes": "AA=="}])"), HasSubstr("missing"));
}

}  // namespace
}  // namespace phalanx
