#pragma once
// The blanks that Hugging Face's tokenizers take away where they make text of word pieces.

#include <string>

namespace phalanx {

// Cleans one token with the blank before it; patterns over two tokens stay.
void clean_up_wordpiece(std::string& text);

}  // namespace phalanx
