#pragma once
// One attempt of a member to join over an open link: it proves that it knows the secret, asks to
// join, and gets the welcome when all others have come. It has no socket and no clock.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/connection_end.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/handshake.h"
#include "phalanx/rendezvous/link.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/session.h"

namespace phalanx::rendezvous {

struct Joined {
  std::shared_ptr<Link> link;  // its functions are not set yet
  FrameOpener opener;          // may hold more messages
  Session session;             // that continues over the link
  std::string session_name;
  Secret secret;  // the given one, or MUNGE's
  Welcome welcome;
  std::string device;  // the network interface of the link; empty for a Unix socket
};

// The request of a member that joins or reconnects.
JoinRequest join_request(const LaunchEnvironment& environment, const std::string& session_name,
                         std::uint64_t last_received);

class JoinAttempt {
 public:
  // `request` is sent after the proof. The session is that of all attempts: an earlier one may have
  // joined and lost its link. All but the link must outlive the attempt.
  JoinAttempt(std::shared_ptr<Link> link, const Secret& secret, const Hello& hello,
              const JoinRequest& request, Session& session);
  JoinAttempt(const JoinAttempt&) = delete;
  JoinAttempt& operator=(const JoinAttempt&) = delete;
  ~JoinAttempt();

  void start();

  const ClientHandshake& handshake() const { return handshake_; }
  // What has come so far: how the link ended, the answer to the request, the last word about who is
  // missing (the coordinator has then taken the request).
  const std::optional<ConnectionEnd>& end() const { return end_; }
  const std::optional<Welcome>& welcome() const { return welcome_; }
  const std::optional<Refusal>& refusal() const { return refusal_; }
  const std::optional<std::string>& roll_call() const { return roll_call_; }

  // After the welcome: hands over the link, whose functions are no longer set, and its messages.
  std::shared_ptr<Link> take_link();
  FrameOpener take_opener();

 private:
  void on_bytes(std::string_view bytes);
  void on_messages();
  void on_message(const ControlMessage& message);

  std::shared_ptr<Link> link_;
  ClientHandshake handshake_;
  const JoinRequest& request_;
  Session& session_;
  std::optional<FrameOpener> opener_{};
  std::optional<ConnectionEnd> end_{};
  std::optional<Welcome> welcome_{};
  std::optional<Refusal> refusal_{};
  std::optional<std::string> roll_call_{};
};

}  // namespace phalanx::rendezvous
