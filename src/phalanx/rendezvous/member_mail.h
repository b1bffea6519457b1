#pragma once
// A member's end of the mailbox: the calls of its threads, and the coordinator's answers. It has no
// socket.

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/mailbox.h"
#include "phalanx/rendezvous/message.h"

namespace phalanx::rendezvous {

class MemberMail final : public Mailbox {
 public:
  // Sends a message to the coordinator, now or later, in order. It does not wait.
  using Send = std::function<void(ControlMessage message)>;

  explicit MemberMail(Send send) : send_(std::move(send)) {}

  void post(const std::string& name, std::string text) override;
  std::string read(const std::string& name) override;
  std::optional<std::string> read_unless(const std::stop_token& stop,
                                         const std::string& name) override;
  std::optional<std::string> take(const std::string& name) override;

  void on_answer(Mail&& mail);
  // Every call throws this error from now on, those that wait at once. The first error counts.
  void fail(const Error& error);

 private:
  enum class Call : std::uint8_t { kPost, kRead, kTake };
  struct Waiting {
    Call call;
    std::string name;
    std::optional<Mail> answer{};
    bool is_given_up = false;  // the answer that comes is for nobody
  };

  // Sends what `send` says and waits for the answer; nothing if `stop` is requested meanwhile.
  std::optional<Mail> ask(Call call, const std::string& name, const std::function<void()>& send,
                          const std::stop_token& stop = {});

  Send send_;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::list<Waiting> waiting_{};
  std::optional<Error> failure_{};
};

}  // namespace phalanx::rendezvous
