#pragma once
// Texts of benchmarks have blanks around punctuation and marks for what was cut. A model that reads
// plain text needs the original text: these rules of Megatron-LM (tasks/zeroshot_gpt/
// detokenizer.py) restore it.

#include <string>
#include <string_view>

namespace phalanx {

// The rules for the Penn treebank ("ptb") and WikiText ("wiki"); "lambada" and "none" leave the
// text as it is. PHALANX_CHECK where the name is another.
std::string detokenize(std::string_view name, std::string_view text);

// The name of the rules for a file, as in Megatron: the first of ptb, wiki and lambada that is in
// the file's path; "none" where none is.
std::string_view detokenizer_of(std::string_view path);

}  // namespace phalanx
