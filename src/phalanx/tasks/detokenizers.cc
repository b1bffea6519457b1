#include "phalanx/tasks/detokenizers.h"

#include <span>

#include "phalanx/base/error.h"
#include "phalanx/tasks/unicode_text.h"

namespace phalanx {
namespace {

struct Rule {
  std::string_view from, to;
};

constexpr Rule kPennTreebank[] = {{" '", "'"},   {" \n", "\n"}, {"\n ", "\n"}, {" n't", "n't"},
                                  {" N ", "1 "}, {"$ 1", "$1"}, {"# 1", "#1"}};

constexpr Rule kWikiBefore[] = {{"s '", "s'"}, {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."},
                                {" : ", ": "}, {" ; ", "; "},  {" . ", ". "},  {" ! ", "! "},
                                {" ? ", "? "}, {" , ", ", "}};
constexpr Rule kWikiBehind[] = {{"= = = =", "===="},    {"= = =", "==="}, {"= =", "=="},
                                {" \u00b0 ", "\u00b0"}, {" \n", "\n"},    {"\n ", "\n"},
                                {" N ", " 1 "},         {" 's", "'s"}};

std::string rewrite(std::span<const Rule> rules, std::string text) {
  for (const Rule& rule : rules) text = replace_all(text, rule.from, rule.to);
  return text;
}

// Text between an opening and the next closing character loses the white space at its ends; pairs
// do not overlap.
std::string strip_inside(std::string_view text, char open, char close) {
  std::string result;
  while (true) {
    const std::size_t begin = text.find(open);
    const std::size_t end = begin == std::string_view::npos ? begin : text.find(close, begin + 1);
    if (end == std::string_view::npos) return result.append(text);
    result += text.substr(0, begin + 1);
    result += strip(text.substr(begin + 1, end - begin - 1));
    result += close;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string detokenize(std::string_view name, std::string_view text) {
  if (name == "ptb") return rewrite(kPennTreebank, std::string(text));
  if (name != "wiki") {
    PHALANX_CHECK(name == "lambada" || name == "none", "detokenizer {}", name);
    return std::string(text);
  }
  std::string result = rewrite(kWikiBefore, std::string(text));
  for (const std::string_view pair : {"()", "[]", "{}", "\"\"", "''"}) {
    result = strip_inside(result, pair[0], pair[1]);
  }
  return rewrite(kWikiBehind, std::move(result));
}

std::string_view detokenizer_of(std::string_view path) {
  for (const std::string_view name : {"ptb", "wiki", "lambada"}) {
    if (path.find(name) != std::string_view::npos) return name;
  }
  return "none";
}

}  // namespace phalanx
