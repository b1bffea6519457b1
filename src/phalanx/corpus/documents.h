#pragma once
// Cuts text into documents: at blank lines, at a separator, or one for each line of JSON. Documents
// are views into the text; nothing is copied.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "phalanx/corpus/text_format.h"

namespace phalanx {

// What a document is. JSON lines: each line. Plain text: each file, unless the text is cut at blank
// lines or at every occurrence of a separator.
struct CorpusRules {
  CorpusFormat format = CorpusFormat::kText;
  bool split_on_blank_lines = false;
  std::string separator = {};
};

// Called for each document in turn.
using DocumentVisitor = std::function<void(std::string_view)>;

// The pieces between blank lines (lines of white space alone), without their outer line breaks.
void for_each_paragraph(std::string_view text, const DocumentVisitor& visit);

// The pieces between occurrences of `separator` (not empty), without their outer line breaks; empty
// ones are dropped.
void for_each_separated(std::string_view text, std::string_view separator,
                        const DocumentVisitor& visit);

// The lines that are not blank, without their line breaks, and their numbers from 1.
void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, std::int64_t number)>& visit);

// The documents of a text by these rules.
void for_each_document(std::string_view text, const CorpusRules& rules,
                       const DocumentVisitor& visit);

// Size of the longest prefix of `text` whose documents stay the same whatever text follows: it ends
// with a whole document. 0 where there is no such prefix, as in a file that is one document.
std::size_t settled_size(std::string_view text, const CorpusRules& rules);

// Whether text can be cut at an occurrence of the separator without knowing the text before it.
// With "aa" it cannot: in "aaa" only the first two letters are a separator.
bool cuts_alike_everywhere(std::string_view separator);

// DataError if documents are cut at line ends, and the text has only carriage returns as line ends.
void check_line_ends(const CorpusHead& head, const CorpusRules& rules, const std::string& name);

}  // namespace phalanx
