#pragma once
// A member's messages to and from its coordinator after it has joined. If the connection is lost
// without a goodbye it reconnects; messages that are sent meanwhile are kept, except heartbeats. It
// has no socket, no thread and no clock.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/join_attempt.h"
#include "phalanx/rendezvous/link.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/reconnection.h"
#include "phalanx/rendezvous/session.h"

namespace phalanx::rendezvous {

class MemberLink {
 public:
  using Clock = std::chrono::steady_clock;
  struct Callbacks {
    std::function<Clock::time_point()> now;
    // An exception ends the link.
    std::function<void(ControlMessage&& message)> on_message;
    // The coordinator is gone: "its connection was reset, and its port refuses connections". Called
    // once.
    std::function<void(const std::string& how)> on_lost;
    // The coordinator is connected, and has been silent for too long. May be called again.
    std::function<void(Clock::duration time)> on_silence;
    // The connection is lost (true), or there is another one (false).
    std::function<void(bool is_cut_off)> on_cut_off;
  };

  MemberLink(Dialer& dialer, const MemberOptions& options, Joined&& joined, Callbacks callbacks);
  MemberLink(const MemberLink&) = delete;
  MemberLink& operator=(const MemberLink&) = delete;

  // Handles the messages that came together with the welcome.
  void begin();
  void send(const ControlMessage& message);
  // Looks for silence, and reconnects where needed. To be called several times a second.
  void check(Clock::time_point now);
  // This process did not run for so long, and could receive nothing.
  void account_for_own_gap(Clock::duration gap) { last_heard_ += gap; }
  // How long the coordinator may be silent.
  void set_silence_limit(std::chrono::milliseconds limit);
  void close();

 private:
  void listen_to(std::shared_ptr<Link> link);
  void on_bytes(std::string_view bytes);
  void on_connection_end(const ConnectionEnd& end);
  void give_up(const std::string& how);
  void reconnect(Clock::time_point now);
  void stop_reconnecting();
  void on_reconnected(std::shared_ptr<Link> link, FrameOpener opener);

  Dialer& dialer_;
  const MemberRole role_;
  const LaunchEnvironment environment_;
  const Callbacks callbacks_;
  const Secret secret_;
  const std::string session_name_;
  Session session_;
  std::shared_ptr<Link> link_;
  FrameOpener opener_;
  bool awaits_confirmation_ = false;  // reconnected, and not told yet what to send again
  bool is_lost_ = false;              // for good
  std::string connection_end_{};      // how it ended, while there is none
  std::shared_ptr<Reconnection> reconnection_{};
  Clock::time_point attempt_began_{};
  Clock::time_point next_attempt_{};
  Clock::duration pause_{};
  std::chrono::milliseconds silence_limit_;
  Clock::time_point last_heard_;
};

}  // namespace phalanx::rendezvous
