#pragma once
// The texts of a run's mailbox at the coordinator, and the members that wait for one. It has no
// socket and no clock: each function returns the answers to send.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/rendezvous/mailbox.h"
#include "phalanx/rendezvous/message.h"

namespace phalanx::rendezvous {

class MailStore {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  struct Answer {
    int number;   // the member that gets it
    Bytes bytes;  // an encoded Mail; of a text that many read, the same one
  };

  // `most`: the bytes of all texts, and of those that are still coming.
  explicit MailStore(std::size_t most = kMostMail) : most_(most) {}

  // UnavailableError if a part does not continue the ones before.
  std::vector<Answer> on_part(int number, MailPart&& part);
  std::vector<Answer> on_request(int number, const MailRequest& request);

  std::size_t bytes() const { return bytes_; }

 private:
  // A text that is coming.
  struct Coming {
    std::uint64_t total = 0;
    std::uint64_t received = 0;
    std::string text{};
    std::string refusal{};  // why it is not kept; empty: it is
  };
  struct Kept {
    Bytes answer;      // Mail with the text: the last bytes of the encoded message
    std::size_t size;  // of the text
  };

  std::string refusal_of(const MailPart& first) const;

  std::size_t most_;
  std::size_t bytes_ = 0;
  std::map<std::pair<int, std::string>, Coming> coming_{};
  std::map<std::string, Kept> kept_{};
  std::map<std::string, std::vector<int>> readers_{};  // that wait for a text
};

}  // namespace phalanx::rendezvous
