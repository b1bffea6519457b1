#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "phalanx/base/error.h"
#include "phalanx/flags/completion_parts.h"
#include "phalanx/flags/row_text.h"
#include "phalanx/flags/views.h"

// The scripts of bash and zsh have the same steps: which command is typed, which flag stands before
// the cursor, what that flag takes. What differs between commands is a branch of a case.

namespace phalanx {
namespace {

// A word quoted for bash and zsh.
std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// An element of zsh's _describe: the first colon ends the word.
std::string zsh_described(std::string_view word, std::string_view description) {
  std::string text = escaped(word, ":\\");
  if (!description.empty()) text += fmt::format(":{}", description);
  return shell_quoted(text);
}

// The flags of a command, in alternatives of a pattern: '--a' | '--b'. Every spelling counts, with
// dashes.
std::string pattern_of(const std::vector<const FlagRow*>& rows) {
  std::vector<std::string> words;
  for (const FlagRow* row : rows) {
    words.push_back(shell_quoted(canonical_name(row->spec.name)));
    for (const std::string_view alias : words_of(row->spec.aliases)) {
      words.push_back(shell_quoted(canonical_name(alias)));
    }
  }
  return fmt::format("{}", fmt::join(words, " | "));
}

std::string quoted_words(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : " ") + shell_quoted(word);
  return text;
}

// The settings in the branch of a flag; nothing for switches.
std::string settings_of(const FlagRow& row) {
  const std::string many = row.type == FlagType::kList ? " many=1" : "";
  switch (takes(row)) {
    case Takes::kNothing:
      break;
    case Takes::kNumber:
      return "takes=number" + many;
    case Takes::kFile:
      return "takes=file" + many;
    case Takes::kText:
      return "takes=text" + many;
    case Takes::kChoice:
      return fmt::format("takes=choice choices=({}){}", quoted_words(allowed_values(row.spec)),
                         many);
  }
  return "";
}

// The branches for the flag before the cursor; flags that take the same values share one.
std::string value_branches(const CommandFlags& command) {
  std::vector<std::pair<std::string, std::vector<const FlagRow*>>> branches;  // by settings
  for (const FlagRow& row : command.rows) {
    const std::string settings = settings_of(row);
    if (!is_offered(row) || settings.empty()) continue;
    auto branch =
        std::ranges::find_if(branches, [&](const auto& known) { return known.first == settings; });
    if (branch == branches.end()) branch = branches.insert(branch, {settings, {}});
    branch->second.push_back(&row);
  }
  std::string text;
  for (const auto& [settings, rows] : branches) {
    text += fmt::format("        {}) {} ;;\n", pattern_of(rows), settings);
  }
  return text;
}

// The branches for the command: what may come next, then what the flags take. `element` writes a
// word and its description for the shell.
using Element = std::function<std::string(std::string_view word, std::string_view description)>;

std::string command_branches(const std::vector<CommandNode>& nodes, const Element& element) {
  std::string text;
  for (const CommandNode& node : nodes) {
    if (!node.same_as.empty()) continue;
    text += "    " + shell_quoted(node.path);
    for (const std::string& other : node.others) text += " | " + shell_quoted(other);
    text += ")\n";
    if (!node.words.empty()) {
      text += "      next_words=(\n";
      for (const auto& word : node.words) {
        text += fmt::format("        {}\n",
                            element(word, description_of(nodes, node.path + " " + word)));
      }
      text += "      )\n";
    }
    text += "      next_flags=(\n";
    if (node.command != nullptr) {
      for (const FlagRow& row : node.command->rows) {
        if (!is_offered(row)) continue;
        text += fmt::format("        {}\n", element(row.spec.name, description_of(row)));
      }
    }
    text += fmt::format("        {}\n      )\n", element("--help", "What the flags are"));
    if (node.command != nullptr && node.command->takes_files) text += "      files=1\n";
    const std::string values = node.command == nullptr ? "" : value_branches(*node.command);
    if (!values.empty()) text += fmt::format("      case \"$flag\" in\n{}      esac\n", values);
    text += "      ;;\n";
  }
  return text;
}

// The pattern of every command and beginning of one.
std::string known_paths(const std::vector<CommandNode>& nodes) {
  std::vector<std::string> paths;
  for (const CommandNode& node : nodes) {
    if (!node.path.empty()) paths.push_back(shell_quoted(node.path));
  }
  return paths.empty() ? "''" : fmt::format("{}", fmt::join(paths, " | "));
}

// {0}: known paths, {1}: the branches on the command.
constexpr std::string_view kBash = R"(# Completion of phalanx in bash.
# In this shell: source <(phalanx completion bash)
# In every one: phalanx completion bash > ~/.local/share/bash-completion/completions/phalanx

_phalanx() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} typed='' flag='' takes='' many='' files='' behind=0 i
  local -a next_words=() next_flags=() choices=() candidates=()
  COMPREPLY=()

  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$typed ${{COMP_WORDS[i]}}" in
      {0}) typed+=" ${{COMP_WORDS[i]}}" ;;
      *) break ;;
    esac
  done
  # The last flag, and how many words stand behind it. --flag=value is three words here.
  for ((; i < COMP_CWORD; ++i)); do
    case "${{COMP_WORDS[i]}}" in
      --*) flag=${{COMP_WORDS[i]//_/-}} behind=0 ;;
      =) ;;
      *) behind=$((behind + 1)) ;;
    esac
  done
  if [[ $word == '=' ]]; then word=''; fi

  case "$typed" in
{1}  esac

  if [[ $behind -gt 0 && ( -z $many || $word == -* ) ]]; then takes=''; fi
  case "$takes" in
    number | text) return ;;
    file) compopt -o default; return ;;
    choice) candidates=("${{choices[@]}}") ;;
    *)
      if [[ -n $files && $word != -* ]]; then compopt -o default; return; fi
      if [[ ${{#next_words[@]}} -gt 0 && $word != -* ]]; then
        candidates=("${{next_words[@]}}")
      else
        candidates=("${{next_flags[@]}}")
      fi
      ;;
  esac
  for i in "${{candidates[@]}}"; do
    if [[ $i == "$word"* ]]; then COMPREPLY+=("$i"); fi
  done
}}

complete -F _phalanx phalanx
)";

constexpr std::string_view kZsh = R"(#compdef phalanx
# Completion of phalanx in zsh.
# In this shell, after compinit: source <(phalanx completion zsh)
# In every one: phalanx completion zsh > "${{fpath[1]}}/_phalanx"

_phalanx() {{
  local typed='' flag='' takes='' many='' files='' behind=0 i
  local -a next_words=() next_flags=() choices=()

  for ((i = 2; i < CURRENT; ++i)); do
    case "$typed ${{words[i]}}" in
      {0}) typed+=" ${{words[i]}}" ;;
      *) break ;;
    esac
  done
  # The last flag, and how many words stand behind it.
  for ((; i < CURRENT; ++i)); do
    case "${{words[i]}}" in
      --*=*) flag='' behind=0 ;;
      --*) flag=${{words[i]//_/-}} behind=0 ;;
      *) behind=$((behind + 1)) ;;
    esac
  done
  if [[ $PREFIX == --*=* ]]; then
    flag=${{${{PREFIX%%=*}}//_/-}} behind=0
    compset -P 1 '*='
  fi

  case "$typed" in
{1}  esac

  if [[ $behind -gt 0 && ( -z $many || $PREFIX == -* ) ]]; then takes=''; fi
  case "$takes" in
    number) _message 'a number' ;;
    text) _message 'a text' ;;
    file) _files ;;
    choice) compadd -- "${{choices[@]}}" ;;
    *)
      if [[ -n $files && $PREFIX != -* ]]; then
        _files
      elif [[ ${{#next_words}} -gt 0 && $PREFIX != -* ]]; then
        _describe 'command' next_words
      else
        _describe 'flag' next_flags
      fi
      ;;
  esac
}}

if [[ ${{funcstack[1]}} == _phalanx ]]; then
  _phalanx "$@"
else
  compdef _phalanx phalanx
fi
)";

}  // namespace

std::string completion_script(std::string_view shell, const std::vector<CommandFlags>& commands) {
  const std::vector<CommandNode> nodes = tree_of(commands);
  if (shell == "bash") {
    const auto word_alone = [](std::string_view word, std::string_view) {
      return shell_quoted(word);
    };
    return fmt::format(kBash, known_paths(nodes), command_branches(nodes, word_alone));
  }
  if (shell == "zsh") {
    return fmt::format(kZsh, known_paths(nodes), command_branches(nodes, zsh_described));
  }
  if (shell == "fish") return fish_script(nodes);
  throw UsageError("say bash, zsh or fish, not {}", shell);
}

}  // namespace phalanx
