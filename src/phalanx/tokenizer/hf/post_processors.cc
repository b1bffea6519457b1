#include "phalanx/tokenizer/hf/post_processors.h"

#include <algorithm>
#include <utility>

namespace phalanx {
namespace {

std::int32_t read_id(const JsonNode& node, std::int64_t vocab_size) {
  return static_cast<std::int32_t>(node.integer(0, vocab_size - 1));
}

// ["[SEP]", 102]
std::int32_t read_token_and_id(const JsonNode& node, std::int64_t vocab_size) {
  const auto pair = node.elements();
  if (pair.size() != 2) node.reject("expected [token, id]");
  return read_id(pair[1], vocab_size);
}

}  // namespace

PostProcessors::PostProcessors(const JsonNode& node, std::int64_t vocab_size) {
  add(node, vocab_size);
}

void PostProcessors::add(const JsonNode& node, std::int64_t vocab_size) {
  const JsonNode type = node["type"];
  const std::string name = type.text();
  if (name == "Sequence") {
    node.allow({"type", "processors"});
    for (const JsonNode& part : node["processors"].elements()) add(part, vocab_size);
  } else if (name == "ByteLevel") {  // changes offsets only
    node.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else if (name == "BertProcessing" || name == "RobertaProcessing") {
    node.allow({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    templates_.push_back({read_token_and_id(node["cls"], vocab_size), kText,
                          read_token_and_id(node["sep"], vocab_size)});
  } else if (name == "TemplateProcessing") {
    add_template(node, vocab_size);
  } else {
    type.refuse(
        "{} is not supported; the post-processors are TemplateProcessing, BertProcessing, "
        "RobertaProcessing, ByteLevel and Sequence",
        shown_text(name));
  }
}

void PostProcessors::add_template(const JsonNode& node, std::int64_t vocab_size) {
  node.allow({"type", "single", "pair", "special_tokens"});
  Template parts;
  for (const JsonNode& part : node["single"].elements()) {
    part.allow({"SpecialToken", "Sequence"});
    if (const auto sequence = part.find("Sequence")) {
      sequence->allow({"id", "type_id"});
      if ((*sequence)["id"].text() != "A") {
        (*sequence)["id"].reject("the template of one text may only speak of A");
      }
      parts.push_back(kText);
      continue;
    }
    const JsonNode token = part["SpecialToken"];
    token.allow({"id", "type_id"});
    const JsonNode described = node["special_tokens"][token["id"].text()];
    described.allow({"id", "ids", "tokens"});
    for (const JsonNode& id : described["ids"].elements()) parts.push_back(read_id(id, vocab_size));
  }
  // Twice would let a short file make any number of ids.
  if (std::ranges::count(parts, kText) != 1) {
    node["single"].refuse("a template that does not speak of A once is not supported");
  }
  templates_.push_back(std::move(parts));
}

std::vector<std::int32_t> PostProcessors::apply(std::vector<std::int32_t> ids) const {
  for (const Template& parts : templates_) {
    std::vector<std::int32_t> all;
    all.reserve(ids.size() + parts.size());
    for (const std::int32_t part : parts) {
      if (part == kText) {
        all.insert(all.end(), ids.begin(), ids.end());
      } else {
        all.push_back(part);
      }
    }
    ids = std::move(all);
  }
  return ids;
}

}  // namespace phalanx
