// The commands of the program that end by themselves.

#include "phalanx/cli/commands.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/library/answer.h"
#include "phalanx/library/memory_io.h"
#include "phalanx/library/request.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;
using Command = std::function<int(CommandIo& io, const Arguments& arguments)>;

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What the command prints with --json.
std::string document_of(const Command& command, Arguments arguments) {
  arguments.emplace_back("--json");
  MemoryIo io;
  try {
    command(io, arguments);
  } catch (const HelpRequested&) {
    throw UsageError("--help prints no JSON: the function for any command gives its text");
  }
  if (!io.output().starts_with('{')) {
    throw UsageError(
        "the call prints no JSON: leave --print-yaml and --compare out, or use the function for "
        "any command");
  }
  return std::move(io.output());
}

phalanx_answer* answer_with_document(const char* request,
                                     int (*command)(CommandIo&, const Arguments&)) {
  return answer_apart([&] {
    Request asked(request);
    Arguments words = asked.words();
    asked.expect_no_other();
    return document_of(command, std::move(words));
  });
}

// Adds a member to a document, whose other bytes stay as they are.
void add_member(std::string& document, std::string_view name, const std::string& text) {
  document.resize(document.rfind('}'));
  document += fmt::format(", \"{}\": {}}}\n", name, json_text(Json(text)));
}

// The words of a command with a model: "load", and those of the request.
Arguments model_words(Request& request) {
  Arguments words;
  if (const auto load = request.word("load")) words.push_back("--load=" + *load);
  const Arguments others = request.words();
  words.insert(words.end(), others.begin(), others.end());
  return words;
}

std::string documents_of_answers(const std::string& printed) {
  Json document = Json::parse(printed);
  if (!document.contains("answers")) return json_text(Json::array({std::move(document)}));
  Json documents = std::move(document["answers"]);
  // Of all prompts together.
  for (Json& one : documents) one["rates"] = document["rates"];
  return json_text(documents);
}

std::string generated(Request& request) {
  Arguments words = model_words(request);
  const auto prompts = request.texts("prompts");
  request.expect_no_other();
  if (prompts && prompts->empty()) {
    throw UsageError("prompts: the list is empty: give a text, or leave it out");
  }
  for (const std::string& prompt : prompts.value_or(std::vector<std::string>())) {
    words.push_back("--prompt=" + prompt);
  }
  return documents_of_answers(document_of(run_generate, std::move(words)));
}

// A document on each line as a list.
std::string list_of_lines(std::string lines) {
  if (lines.ends_with('\n')) lines.pop_back();
  std::string list = "[";
  for (const char c : lines) list += c == '\n' ? std::string(",\n") : std::string(1, c);
  return list + "]";
}

std::string scored(Request& request) {
  const Arguments words = model_words(request);
  const bool has_texts = request.has("texts");
  const bool has_tokens = request.has("tokens");
  ScoredTexts given;
  given.texts = request.texts("texts").value_or(given.texts);
  given.tokens = request.ids("tokens").value_or(given.tokens);
  request.expect_no_other();
  if (has_texts == has_tokens) throw UsageError("give either texts or tokens");
  if (given.texts.empty() && given.tokens.empty()) {
    throw UsageError("{}: the list is empty", has_texts ? "texts" : "tokens");
  }
  const auto command = [&](CommandIo& io, const Arguments& arguments) {
    return score(io, {"phalanx score"}, arguments, &given);
  };
  return list_of_lines(document_of(command, words));
}

std::string page_of_runs(Request& request) {
  const auto directories = request.word_list("directories");
  request.expect_no_other();
  if (!directories) throw UsageError("directories: give a list of the --save directories of runs");
  Arguments words = {"--output=-", "--"};
  words.insert(words.end(), directories->begin(), directories->end());
  MemoryIo io;
  run_report(io, words);
  return json_text({{"html", std::move(io.output())}});
}

std::string command_output(Request& request) {
  Arguments words;
  if (const auto command = request.word_list("command")) words = *command;
  if (words.empty()) {
    throw UsageError("command: give a list of words, as in [\"dataset\", \"info\"]");
  }
  const Arguments others = request.words();
  words.insert(words.end(), others.begin(), others.end());
  MemoryIo io(request.text("input").value_or(""));
  request.expect_no_other();
  int status = 0;
  try {
    status = run_command(io, words);
  } catch (const HelpRequested& help) {
    io.put(help.text);
  }
  return json_text({{"status", status}, {"output", std::move(io.output())}});
}

phalanx_answer* answer_with(const char* request, std::string (*work)(Request& request)) {
  return answer_apart([&] {
    Request asked(request);
    return work(asked);
  });
}

}  // namespace
}  // namespace phalanx

extern "C" {

phalanx_answer* phalanx_plan(const char* request) {
  return phalanx::answer_with_document(request, phalanx::run_plan);
}

phalanx_answer* phalanx_grid(const char* request) {
  return phalanx::answer_with_document(request, phalanx::run_grid);
}

phalanx_answer* phalanx_schedule(const char* request) {
  return phalanx::answer_with(request, [](phalanx::Request& asked) {
    phalanx::Arguments words = asked.words();
    const bool has_picture = asked.is_set("picture");
    asked.expect_no_other();
    std::string picture;
    std::string document = phalanx::document_of(
        [&](phalanx::CommandIo& io, const phalanx::Arguments& arguments) {
          return phalanx::schedule(io, arguments, has_picture ? &picture : nullptr);
        },
        std::move(words));
    if (!picture.empty()) phalanx::add_member(document, "svg", picture);
    return document;
  });
}

phalanx_answer* phalanx_generate(const char* request) {
  return phalanx::answer_with(request, phalanx::generated);
}

phalanx_answer* phalanx_score(const char* request) {
  return phalanx::answer_with(request, phalanx::scored);
}

phalanx_answer* phalanx_report(const char* request) {
  return phalanx::answer_with(request, phalanx::page_of_runs);
}

phalanx_answer* phalanx_command(const char* request) {
  return phalanx::answer_with(request, phalanx::command_output);
}

}  // extern "C"
