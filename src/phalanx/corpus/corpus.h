#pragma once
// The documents of a corpus: where text is cut into them, and the texts of a JSON line. Nothing is
// copied until the JSON is read: documents are views into one text.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

enum class CorpusFormat { kText, kJsonLines };

// What makes a document. JSON lines: each line is one. Plain text: each file is one, unless it is
// cut at lines of nothing but blanks or at every occurrence of a separator.
struct CorpusRules {
  CorpusFormat format = CorpusFormat::kText;
  bool split_on_blank_lines = false;
  std::string separator = {};
};

// Called for each document in turn.
using DocumentVisitor = std::function<void(std::string_view)>;

// The pieces between lines of nothing but blanks, without their outer line breaks.
void for_each_paragraph(std::string_view text, const DocumentVisitor& visit);

// The pieces between occurrences of `separator` (not empty), without their outer line breaks; empty
// ones are dropped.
void for_each_separated(std::string_view text, std::string_view separator,
                        const DocumentVisitor& visit);

// Lines without their line break, and their numbers from 1; lines of nothing but blanks are left
// out.
void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, std::int64_t number)>& visit);

// The documents of a text by these rules.
void for_each_document(std::string_view text, const CorpusRules& rules,
                       const DocumentVisitor& visit);

// Size of the longest beginning of a text that more text behind it does not change: it ends with a
// whole document. 0 where there is none, as in a file that is one document.
std::size_t settled_size(std::string_view text, const CorpusRules& rules);

// Whether the documents behind an occurrence of the separator are the same where the text before it
// is not known. Of "aa" they are not: "aaa" is cut behind its second letter.
bool cuts_alike_everywhere(std::string_view separator);

// The strings of each key of one JSON object: one for a string, any number for a list of strings.
// `place` (file:line; may be empty) opens the message of the DataError for anything else.
std::vector<std::vector<std::string>> json_texts(std::string_view line,
                                                 const std::vector<std::string>& keys,
                                                 std::string_view place);

// The same for many lines, twenty times as fast where a line is as it should be. Its memory is kept
// from line to line: a thread has one of its own.
class JsonTextReader {
 public:
  explicit JsonTextReader(const std::vector<std::string>& keys);
  JsonTextReader(const JsonTextReader&) = delete;
  JsonTextReader& operator=(const JsonTextReader&) = delete;
  ~JsonTextReader();

  std::vector<std::vector<std::string>> texts(std::string_view line, std::string_view place);

 private:
  struct Parser;
  const std::vector<std::string>& keys_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace phalanx
