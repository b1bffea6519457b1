#include "phalanx/tokenizer/wordpiece_cleanup.h"

#include <array>
#include <string_view>
#include <utility>

namespace phalanx {

void clean_up_wordpiece(std::string& text) {
  // In their order: `from` becomes `to`.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplacements = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kReplacements) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
}

}  // namespace phalanx
