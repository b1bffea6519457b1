#include "phalanx/rendezvous/mail_store.h"

#include <algorithm>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

MailStore::Bytes encoded(Mail mail) {
  return std::make_shared<const std::string>(encode(ControlMessage(std::move(mail))));
}

}  // namespace

std::string MailStore::refusal_of(const MailPart& first) const {
  if (kept_.contains(first.name)) {
    return fmt::format("there is a text '{}' already", first.name);
  }
  if (first.total > most_ - std::min(bytes_, most_)) {
    return fmt::format("no room for the text '{}': {} bytes of texts wait to be taken", first.name,
                       bytes_);
  }
  return {};
}

std::vector<MailStore::Answer> MailStore::on_part(int number, MailPart&& part) {
  const auto [entry, is_first] = coming_.try_emplace({number, part.name});
  Coming& coming = entry->second;
  if (is_first) {
    coming.total = part.total;
    coming.refusal = refusal_of(part);
    if (coming.refusal.empty()) bytes_ += part.total;
  }
  coming.received += part.text.size();
  const bool is_last = coming.received == coming.total;
  if (coming.total != part.total || coming.received > coming.total ||
      (part.text.empty() && !is_last)) {
    throw UnavailableError("a text in parts that do not belong together");
  }
  if (coming.refusal.empty()) coming.text += part.text;
  if (!is_last) return {};

  const Coming whole = std::move(coming);
  coming_.erase(entry);
  std::string refusal = whole.refusal;
  // Two members may have posted it at the same time.
  if (refusal.empty() && kept_.contains(part.name)) {
    refusal = refusal_of(part);
    bytes_ -= whole.total;
  }
  if (!refusal.empty()) return {{number, encoded({part.name, Mail::Kind::kRefused, refusal})}};
  std::vector<Answer> answers = {{number, encoded({part.name, Mail::Kind::kKept, {}})}};
  const Bytes answer = encoded({part.name, Mail::Kind::kRead, whole.text});
  kept_.emplace(part.name, Kept{answer, whole.text.size()});
  if (const auto readers = readers_.find(part.name); readers != readers_.end()) {
    for (const int reader : readers->second) answers.push_back({reader, answer});
    readers_.erase(readers);
  }
  return answers;
}

std::vector<MailStore::Answer> MailStore::on_request(int number, const MailRequest& request) {
  const auto kept = kept_.find(request.name);
  if (!request.take) {
    if (kept != kept_.end()) return {{number, kept->second.answer}};
    readers_[request.name].push_back(number);
    return {};
  }
  if (kept == kept_.end()) {
    return {{number, encoded({request.name, Mail::Kind::kNotThere, {}})}};
  }
  const std::string_view answer = *kept->second.answer;
  const std::string text(answer.substr(answer.size() - kept->second.size));
  bytes_ -= kept->second.size;
  kept_.erase(kept);
  return {{number, encoded({request.name, Mail::Kind::kTaken, text})}};
}

}  // namespace phalanx::rendezvous
