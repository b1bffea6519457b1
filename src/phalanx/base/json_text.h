#pragma once
// JSON as a text, for whoever parses it: what stands where a parser stopped, and the numbers that
// Python's json module has beside those of JSON.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace phalanx {

// Describes what stands at a fault: "line 2, column 14: a comma before }". `byte`: how many bytes
// the parser had read, the one that it did not understand included.
std::string json_fault(std::string_view text, std::size_t byte);

// Python writes and reads NaN, Infinity and -Infinity. Returns the text with a string of the same
// length for each of them, which python_number() knows again; nothing if there are none.
std::optional<std::string> without_python_numbers(std::string_view text);
// The number that such a string stands for.
std::optional<double> python_number(std::string_view string);

// "NaN", "Infinity" or "-Infinity" of a number that is not finite.
std::string_view python_name(double number);

}  // namespace phalanx
