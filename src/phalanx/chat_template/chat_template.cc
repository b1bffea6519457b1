#include "phalanx/chat_template/chat_template.h"

#include <utility>

#include "phalanx/chat_template/parser.h"
#include "phalanx/chat_template/rendering.h"

namespace phalanx {

ChatTemplate::ChatTemplate(std::shared_ptr<const jinja::Program> program)
    : program_(std::move(program)) {}

ChatTemplate ChatTemplate::parse(std::string_view text, std::string name) {
  return ChatTemplate(jinja::parse_template(text, std::move(name)));
}

bool ChatTemplate::marks_generation() const { return program_->marks_generation; }

const std::string& ChatTemplate::name() const { return program_->place.name(); }

RenderedChat ChatTemplate::render(const TemplateVariables& variables) const {
  return jinja::Rendering(*program_, variables).run();
}

}  // namespace phalanx
