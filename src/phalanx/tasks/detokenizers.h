#pragma once
// Benchmark texts come with blanks around punctuation and marks for what was cut. A model that
// reads plain text is judged by what the text was before: these rules of Megatron-LM
// (tasks/zeroshot_gpt/detokenizer.py) undo that.

#include <string>
#include <string_view>

namespace phalanx {

// The rules for the Penn treebank ("ptb") and WikiText ("wiki"); "lambada" and "none" leave the
// text as it is. PHALANX_CHECK where the name is another.
std::string detokenize(std::string_view name, std::string_view text);

// Which of them belongs to a file, as Megatron tells: the first of ptb, wiki, lambada that its path
// has in it; "none" where it has none.
std::string_view detokenizer_of(std::string_view path);

}  // namespace phalanx
