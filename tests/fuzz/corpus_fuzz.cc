// Any bytes as a file of text or of JSON lines: it is one of these, or refused by its name; its
// documents are parts of it, in order, and none is blank; a line is refused with its place, or its
// texts come back when they are written as JSON.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/corpus/documents.h"
#include "phalanx/corpus/json_lines.h"
#include "phalanx/corpus/text_format.h"
#include "require.h"

namespace phalanx {
namespace {

constexpr std::string_view kPlace = "corpus.jsonl:7";

// Checks that pieces come in order and are parts of the text.
class InOrder {
 public:
  explicit InOrder(std::string_view text) : begin_(text.data()), end_(text.data() + text.size()) {}
  void operator()(std::string_view piece) {
    require(!piece.empty(), "an empty document");
    require(piece.data() >= begin_ && piece.data() + piece.size() <= end_, "outside of the text");
    begin_ = piece.data() + piece.size();
  }

 private:
  const char* begin_;
  const char* end_;
};

void check_line(std::string_view line) {
  const std::vector<std::string> keys = {"text", "b"};
  try {
    const auto texts = json_texts(line, keys, std::string(kPlace));
    require(texts.size() == keys.size(), "{} keys", texts.size());
    const nlohmann::json object = {{keys[0], texts[0]}, {keys[1], texts[1]}};
    require(json_texts(object.dump(), keys, "") == texts, "other texts in {}", object.dump());
  } catch (const DataError& error) {
    require(std::string_view(error.what()).starts_with(kPlace), "without a place: {}",
            error.what());
  }
}

void check_format(std::string_view text, const std::string& name) {
  try {
    const CorpusHead head = look_at_corpus(text.substr(0, kCorpusHeadBytes), name);
    require(head.mark_bytes <= text.size(), "a mark of {} bytes", head.mark_bytes);
    CorpusRules rules;
    rules.format = format_of_corpus(name, head);
    check_line_ends(head, rules, name);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kBadData || error.code() == ErrorCode::kConfiguration,
            "another error: {}", error.what());
    require(std::string_view(error.what()).starts_with(name), "without a name: {}", error.what());
  }
}

void check(std::string_view text) {
  for (const char* name : {"part-00000", "corpus.txt", "corpus.jsonl.gz"}) check_format(text, name);
  InOrder paragraphs(text);
  for_each_paragraph(text, [&](std::string_view piece) { paragraphs(piece); });
  InOrder separated(text);
  for_each_separated(text, "<|e|>", [&](std::string_view piece) {
    require(piece.find("<|e|>") == std::string_view::npos, "a separator in a document");
    separated(piece);
  });
  InOrder lines(text);
  std::int64_t last = 0;
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    require(number > last, "line {} behind {}", number, last);
    last = number;
    lines(line);
    check_line(line);
  });
}

}  // namespace
}  // namespace phalanx

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  phalanx::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
