#include "phalanx/rendezvous/local_mailbox.h"

#include <utility>

namespace phalanx {

void LocalMailbox::throw_failure() const {
  if (failure_) throw Error(*failure_);
}

void LocalMailbox::post(const std::string& name, std::string text) {
  rendezvous::check_mail(name, text);
  const std::lock_guard lock(mutex_);
  throw_failure();
  if (texts_.contains(name)) throw UnavailableError("there is a text '{}' already", name);
  if (bytes_ + text.size() > kMostMail) {
    throw UnavailableError("no room for the text '{}': {} bytes of texts wait to be taken", name,
                           bytes_);
  }
  bytes_ += text.size();
  texts_.emplace(name, std::move(text));
  changed_.notify_all();
}

std::string LocalMailbox::read(const std::string& name) { return *read_unless({}, name); }

std::optional<std::string> LocalMailbox::read_unless(const std::stop_token& stop,
                                                     const std::string& name) {
  rendezvous::check_mail_name(name);
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || stop.stop_requested() || texts_.contains(name); });
  throw_failure();
  const auto found = texts_.find(name);
  if (found == texts_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> LocalMailbox::take(const std::string& name) {
  rendezvous::check_mail_name(name);
  const std::lock_guard lock(mutex_);
  throw_failure();
  const auto found = texts_.find(name);
  if (found == texts_.end()) return std::nullopt;
  std::string text = std::move(found->second);
  texts_.erase(found);
  bytes_ -= text.size();
  return text;
}

void LocalMailbox::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  changed_.notify_all();
}

}  // namespace phalanx
