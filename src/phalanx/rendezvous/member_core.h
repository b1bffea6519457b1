#pragma once
// What a member does after it has joined: heartbeats, messages, lost connections, a rank that is
// stuck. It has no socket, no thread and no clock.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/heartbeat.h"
#include "phalanx/rendezvous/join_attempt.h"
#include "phalanx/rendezvous/link.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/member_link.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/round.h"

namespace phalanx::rendezvous {

class MemberCore {
 public:
  using Clock = std::chrono::steady_clock;

  // The process around the member.
  class Host {
   public:
    virtual ~Host() = default;
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    virtual Clock::time_point now() = 0;
    // What the rank does now.
    virtual Heartbeat heartbeat(Clock::time_point now) = 0;
    // A rank (or launcher) has failed, or the coordinator; may be called again.
    virtual void on_failure(RankFailure&& failure) = 0;
    // For launchers: a failure of ranks.
    virtual void on_rank_failure(const RankFailure& failure) = 0;
    // A round is over: the texts of all, or the one of a broadcast.
    virtual void on_texts(std::int64_t round, std::vector<std::string>&& texts) = 0;
    virtual void on_mail(Mail&& mail) = 0;
    virtual void on_busy_ranks(std::string&& text) = 0;
    virtual void on_goodbye_confirmed() = 0;
    // The connection is lost (true), or there is another one (false).
    virtual void on_cut_off(bool is_cut_off) = 0;
    // The coordinator is gone for good.
    virtual void on_coordinator_gone() = 0;

   protected:
    Host() = default;
  };

  // The dialer and the host must outlive it.
  MemberCore(Host& host, Dialer& dialer, const MemberOptions& options, Joined&& joined);
  MemberCore(const MemberCore&) = delete;
  MemberCore& operator=(const MemberCore&) = delete;

  const PlaceList& places() const { return places_; }

  // Sends the first heartbeat, and handles the messages that came together with the welcome.
  void begin();
  // To be called every kTickPeriod.
  void tick();
  void send(const ControlMessage& message) {
    if (!goodbye_sent_) link_.send(message);
  }
  void send_heartbeat();
  void say_goodbye();
  void close() { link_.close(); }

 private:
  void on_message(ControlMessage&& message);
  void on_ping(Ping&& ping);
  void on_coordinator_lost(const std::string& how);
  void on_coordinator_silent(Clock::duration time);

  Host& host_;
  const bool has_silence_limit_;  // of its own
  const PlaceList places_;
  const std::string coordinator_;
  const int coordinator_rank_;
  RoundReader round_reader_;
  MemberLink link_;
  Clock::time_point last_tick_;
  Clock::time_point last_heartbeat_{};
  bool goodbye_sent_ = false;
};

}  // namespace phalanx::rendezvous
