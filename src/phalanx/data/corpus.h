#pragma once
// The documents of a corpus file, found without copying it: views into one mapped text.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

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

// The strings of each key of one JSON object: one for a string, any number for a list of strings.
// `place` (file:line) opens the message of the DataError for anything else.
std::vector<std::vector<std::string>> json_texts(std::string_view line,
                                                 const std::vector<std::string>& keys,
                                                 const std::string& place);

}  // namespace phalanx
