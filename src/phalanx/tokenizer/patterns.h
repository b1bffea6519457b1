#pragma once
// Regular expressions that cut text into words, in the syntax that word_splitter.h takes: PCRE2's,
// with UTF and UCP. White space is always Unicode's property White_Space (PCRE2's own \s also takes
// U+180E, which left the property in Unicode 6.3).

#include <span>
#include <string>
#include <string_view>

namespace phalanx {

// The names that pattern_named() knows: gpt2, cl100k, o200k, llama3, qwen2, and Megatron-LM's v1
// and v2.
std::span<const std::string_view> pattern_names();
// ConfigError for another name.
std::string pattern_named(std::string_view name);

// A pattern of a tokenizer.json, which is Oniguruma's in Ruby's syntax, as one that finds the same
// matches here. The two read some of the same signs differently: {n,m}+ repeats the interval, ^ and
// $ are ends of lines, \w, \h and \v name other sets. ConfigError, naming `place` (the node's path
// in the file), for what has no counterpart: sets inside sets, &&, [:name:], callouts, conditions,
// unknown properties, ...
std::string pattern_of_oniguruma(std::string_view pattern, std::string_view place);

}  // namespace phalanx
