#pragma once
// A member's way to its coordinator once it has joined: messages over a connection, and over the
// next one where that is lost without a goodbye. What is said meanwhile is kept, but for
// heartbeats. On the member's thread. Includes asio.

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/comeback.h"
#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/joiner.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/session.h"

namespace phalanx::rendezvous {

class MemberLink {
 public:
  using Clock = std::chrono::steady_clock;
  struct Calls {
    // What it throws ends the link.
    std::function<void(Message&& message)> hear;
    // The coordinator is gone: "its connection was reset, and its port refuses connections". Once.
    std::function<void(const std::string& how)> lose;
    // It is there, and has said nothing for too long. Maybe again.
    std::function<void(Clock::duration time)> hang;
    // Whether it is between two connections.
    std::function<void(bool is_cut_off)> cut_off;
  };

  MemberLink(asio::io_context& context, const MemberOptions& options, Joined&& joined, Calls calls);
  MemberLink(const MemberLink&) = delete;
  MemberLink& operator=(const MemberLink&) = delete;

  // What has come with the welcome.
  void begin();
  void send(const Message& message);
  // Several times a second.
  void check(Clock::time_point now);
  // This process did not run for so long: it could hear nobody.
  void account_for_own_gap(Clock::duration gap) { heard_ += gap; }
  // After so much silence the coordinator is taken for dead.
  void set_silence(std::chrono::milliseconds silence);
  void close();

 private:
  void listen_to(std::shared_ptr<Connection> connection);
  void hear(std::string_view bytes);
  void ended(const ConnectionEnd& end);
  void lose(const std::string& how);
  void come_back(Clock::time_point now);
  void stop_coming_back();
  void resume(std::shared_ptr<Connection> connection, FrameOpener opener);

  asio::io_context& context_;
  const MemberRole role_;
  const LaunchEnvironment environment_;
  const Calls calls_;
  const Socket::endpoint_type address_;
  const Secret secret_;
  const std::string session_name_;
  Session session_;
  std::shared_ptr<Connection> connection_;
  FrameOpener opener_;
  bool resuming_ = false;   // how much the coordinator has heard is not known yet
  bool is_lost_ = false;    // for good
  std::string lost_how_{};  // the connection, while there is none
  std::shared_ptr<Comeback> comeback_{};
  Clock::time_point comeback_began_{};
  Clock::time_point next_comeback_{};
  Clock::duration pause_{};
  std::chrono::milliseconds silence_;
  Clock::time_point heard_ = Clock::now();
};

}  // namespace phalanx::rendezvous
