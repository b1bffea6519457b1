#pragma once
// The blanks that Hugging Face's tokenizers take away where they make text of word pieces.

#include <string>

namespace phalanx {

// Of one token and the blank before it: what reaches over two tokens stays.
void clean_up_wordpiece(std::string& text);

}  // namespace phalanx
