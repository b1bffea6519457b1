#include "phalanx/rendezvous/member_mail.h"

#include <algorithm>
#include <utility>

namespace phalanx::rendezvous {
namespace {

bool is_of(Mail::Kind kind, bool post, bool read) {
  switch (kind) {
    case Mail::Kind::kKept:
    case Mail::Kind::kRefused:
      return post;
    case Mail::Kind::kRead:
      return read;
    default:
      return !post && !read;
  }
}

}  // namespace

void check_mail_name(std::string_view name) {
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7f'; };
  PHALANX_CHECK(!name.empty() && name.size() <= kLongestMailName &&
                    std::all_of(name.begin(), name.end(), is_plain),
                "a mail's name of {} bytes: 1 to {} printable characters of ASCII, no space",
                name.size(), kLongestMailName);
}

void check_mail(std::string_view name, std::string_view text) {
  check_mail_name(name);
  PHALANX_CHECK(text.size() <= kLongestMail, "the mail '{}' has {} bytes, more than {}", name,
                text.size(), kLongestMail);
}

std::optional<Mail> MemberMail::ask(Call call, const std::string& name,
                                    const std::function<void()>& send,
                                    const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  if (failure_) throw Error(*failure_);
  const auto is_posted_now = [&](const Waiting& each) {
    return each.call == Call::kPost && each.name == name;
  };
  if (call == Call::kPost && std::any_of(waiting_.begin(), waiting_.end(), is_posted_now)) {
    throw UnavailableError("there is a text '{}' already", name);
  }
  // Answers to calls of one kind and name come in the order of the calls.
  const auto own = waiting_.insert(waiting_.end(), Waiting{call, name});
  send();
  changed_.wait(lock, [&] { return failure_ || own->answer || stop.stop_requested(); });
  if (!failure_ && !own->answer) {
    own->is_given_up = true;
    return std::nullopt;
  }
  std::optional<Mail> answer = std::move(own->answer);
  waiting_.erase(own);
  if (!answer) throw Error(*failure_);
  return answer;
}

void MemberMail::post(const std::string& name, std::string text) {
  check_mail(name, text);
  const std::optional<Mail> answer = ask(Call::kPost, name, [&] {
    std::size_t offset = 0;
    do {
      std::string part = text.substr(offset, kLongestMailPart);
      offset += part.size();
      send_(MailPart{name, text.size(), std::move(part)});
    } while (offset < text.size());
  });
  if (answer->kind == Mail::Kind::kRefused) throw UnavailableError("{}", answer->text);
}

std::string MemberMail::read(const std::string& name) { return *read_unless({}, name); }

std::optional<std::string> MemberMail::read_unless(const std::stop_token& stop,
                                                   const std::string& name) {
  check_mail_name(name);
  std::optional<Mail> answer = ask(
      Call::kRead, name,
      [&] {
        send_(MailRequest{name, false});
      },
      stop);
  if (!answer) return std::nullopt;
  return std::move(answer->text);
}

std::optional<std::string> MemberMail::take(const std::string& name) {
  check_mail_name(name);
  std::optional<Mail> answer = ask(Call::kTake, name, [&] { send_(MailRequest{name, true}); });
  if (answer->kind == Mail::Kind::kNotThere) return std::nullopt;
  return std::move(answer->text);
}

void MemberMail::on_answer(Mail&& mail) {
  const std::lock_guard lock(mutex_);
  const auto asked = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) {
    return !each.answer && each.name == mail.name &&
           is_of(mail.kind, each.call == Call::kPost, each.call == Call::kRead);
  });
  if (asked == waiting_.end()) throw UnavailableError("it sends a text that nobody has asked for");
  if (asked->is_given_up) {
    waiting_.erase(asked);
    return;
  }
  asked->answer = std::move(mail);
  changed_.notify_all();
}

void MemberMail::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  changed_.notify_all();
}

}  // namespace phalanx::rendezvous
