#include "phalanx/rendezvous/server_core.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/rendezvous/munge.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {
namespace {

constexpr auto kLongest = std::chrono::hours(24 * 365);

std::string host_of(const CoordinatorOptions& options) {
  return fmt::format("{} (host {}, pid {})", options.launchers > 0 ? "the launcher" : "rank 0",
                     host_name(), ::getpid());
}

}  // namespace

ServerCore::ServerCore(const CoordinatorOptions& options, Clock::time_point now)
    : options_(options),
      run_id_(short_run_id(options.run_id)),
      credential_(options.with_munge ? make_munge_credential(options.secret) : ""),
      name_(host_of(options)),
      epoch_(options.epoch),
      last_tick_(now) {
  if (options_.launchers > 0) {
    launchers_ = make_world(MemberRole::kLauncher, options_.launchers, now);
  }
  begin_attempt(options_.epoch, options_.world_size, now);
}

std::unique_ptr<ServerCore::World> ServerCore::make_world(MemberRole role, int size,
                                                          Clock::time_point now) {
  MembersOptions members;
  members.noun = role == MemberRole::kRank ? "rank" : "launcher";
  members.size = size;
  members.coordinator = name_;
  members.coordinator_rank = role == MemberRole::kRank && options_.launchers > 0 ? -1 : 0;
  members.limits = options_.limits;
  const bool joins = role != MemberRole::kRank || options_.ranks_join;
  members.join_timeout = joins ? options_.join_timeout : kLongest;
  members.over_network = options_.endpoint.kind == Endpoint::Kind::kTcp;
  if (role == MemberRole::kRank && options_.launchers > 0)
    members.exit_report_wait = kExitReportWait;
  const auto send_to = [this, role](int number, const Members::Bytes& bytes, bool may_be_dropped) {
    send(role, number, bytes, may_be_dropped);
  };
  return std::make_unique<World>(
      World{Members(members, send_to, now), std::vector<Seat>(static_cast<std::size_t>(size))});
}

void ServerCore::send(MemberRole role, int number, const Members::Bytes& bytes,
                      bool may_be_dropped) {
  Seat& seat = world_of(role)->seats[static_cast<std::size_t>(number)];
  const std::uint64_t of_message = may_be_dropped ? 0 : seat.session.add_sent(bytes);
  const auto peer = peers_.find(seat.peer);
  if (peer == peers_.end()) return;
  Link& link = *peer->second.link;
  if (!may_be_dropped || link.all_sent()) link.send(bytes, of_message);
}

void ServerCore::begin_attempt(int epoch, int world_size, Clock::time_point now) {
  epoch_ = epoch;
  if (ranks_) {
    for (const Seat& seat : ranks_->seats) {
      if (const auto peer = peers_.find(seat.peer); peer != peers_.end()) {
        peer->second.link->close_when_sent();
        peers_.erase(peer);
      }
    }
  }
  gate_.expect(std::max(world_size, options_.launchers));
  ranks_ = world_size > 0 ? make_world(MemberRole::kRank, world_size, now) : nullptr;
}

void ServerCore::rank_ended(int rank, const std::string& how, Clock::time_point now) {
  if (ranks_) ranks_->members.on_process_end(rank, how, now);
  judge(now);
}

// ---------------------------------------------------------------------------------------------
// Connections.

std::optional<ServerCore::Id> ServerCore::enter(const std::string& address, bool is_trusted,
                                                Clock::time_point now) {
  const Id id = next_id_++;
  std::optional<Id> evicted;
  const Gate::Answer answer = gate_.enter(id, address, now, evicted);
  if (evicted) drop(*evicted);
  if (answer != Gate::Answer::kEnter) return std::nullopt;
  if (is_trusted) return id;
  log_failed_hello(id, "another user's process", now);
  return std::nullopt;
}

void ServerCore::open(Id id, std::shared_ptr<Link> link) {
  peers_.emplace(id, Peer{std::move(link), ServerHandshake(options_.secret, credential_)});
}

void ServerCore::dismiss(Id id) {
  gate_.leave(id);
  drop(id);
}

void ServerCore::on_bytes(Id id, std::string_view bytes, Clock::time_point now) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (found->second.state == State::kUnproven) {
    return on_handshake_bytes(id, found->second, bytes, now);
  }
  found->second.opener->feed(bytes);
  // A message may end the connection, which removes the peer.
  for (auto peer = found; peer != peers_.end(); peer = peers_.find(id)) {
    const std::optional<OpenedMessage> message = peer->second.opener->next();
    if (!message) break;
    on_message(id, peer->second, *message, now);
  }
  judge_events(now);
}

void ServerCore::on_handshake_bytes(Id id, Peer& peer, std::string_view bytes,
                                    Clock::time_point now) {
  peer.link->send_raw(peer.handshake.receive(bytes));
  if (peer.handshake.state() == HandshakeState::kFailed) {
    log_failed_hello(id, peer.handshake.reason(), now);
    peer.link->close_when_sent();
    peers_.erase(id);
  } else if (peer.handshake.state() == HandshakeState::kEnded) {
    gate_.leave(id);
    peer.link->close_when_sent();
    peers_.erase(id);
  } else if (peer.handshake.state() == HandshakeState::kDone) {
    gate_.proved(id);
    peer.link->seal_with(peer.handshake.keys().of_server);
    peer.opener.emplace(peer.handshake.keys().of_client, kLongestOfMember);
    peer.state = State::kProven;
    proofs_.push_back({id, now});
  } else if (peer.handshake.has_hello()) {
    gate_.said_hello(id);
  }
}

void ServerCore::on_message(Id id, Peer& peer, const OpenedMessage& opened, Clock::time_point now) {
  const Hello& hello = peer.handshake.hello();
  ControlMessage message = decode(opened.text);
  if (peer.state == State::kMember) {
    World& world = *world_of(hello.role);
    Session& session = world.seats[static_cast<std::size_t>(hello.number)].session;
    session.confirm(opened.numbers.last_received);
    // A message that was sent again may have come before.
    if (opened.numbers.number != 0 && !session.accept(opened.numbers.number)) return;
    peer.link->set_last_received(session.last_received());
    return world.members.on_message(hello.number, std::move(message), now);
  }
  const auto* request = std::get_if<JoinRequest>(&message);
  if (request == nullptr) throw UnavailableError("it speaks before it has joined");
  on_join_request(id, peer, *request, now);
}

std::optional<Refusal> ServerCore::refusal_of(const Hello& hello) const {
  if (hello.run_id != run_id_) {
    return Refusal{
        ErrorCode::kConfiguration, false,
        fmt::format("this is run '{}', not run '{}': two runs on one port? Give each its "
                    "own (--master-port, --rdzv-id)",
                    run_id_, hello.run_id)};
  }
  if (hello.role == MemberRole::kLauncher) {
    if (launchers_) return std::nullopt;
    return Refusal{ErrorCode::kConfiguration, false,
                   name_ + " has no launcher of this run: how were the others started?"};
  }
  if (hello.epoch < epoch_) {
    return Refusal{
        ErrorCode::kUnavailable, false,
        fmt::format("attempt {} is over, the run is at attempt {}", hello.epoch, epoch_)};
  }
  if (hello.epoch > epoch_ || !ranks_) {
    return Refusal{
        ErrorCode::kUnavailable, true,
        fmt::format("attempt {} has not begun, the run is at attempt {}", hello.epoch, epoch_)};
  }
  return std::nullopt;
}

void ServerCore::on_join_request(Id id, Peer& peer, const JoinRequest& join,
                                 Clock::time_point now) {
  const Hello hello = peer.handshake.hello();
  if (const std::optional<Refusal> refusal = refusal_of(hello)) return refuse(id, peer, *refusal);
  World& world = *world_of(hello.role);
  const auto number = static_cast<std::size_t>(hello.number);
  if (world.members.is_returning(hello.number, join)) return resume_member(id, peer, join, now);
  const Roster& roster = world.members.roster();
  // The seat needs its connection before Members::join(), which sends messages to all when the last
  // member joins.
  const bool is_free = hello.number < roster.size() && !roster.has(hello.number);
  if (is_free) world.seats[number].peer = id;
  if (const auto refusal = world.members.join(hello.number, join, now)) {
    if (is_free) world.seats[number].peer = 0;
    return refuse(id, peer, *refusal);
  }
  peer.state = State::kMember;
}

// A member that reconnects resumes its session. Its last connection may not have ended yet at this
// end.
void ServerCore::resume_member(Id id, Peer& peer, const JoinRequest& join, Clock::time_point now) {
  const Hello& hello = peer.handshake.hello();
  World& world = *world_of(hello.role);
  Seat& seat = world.seats[static_cast<std::size_t>(hello.number)];
  seat.session.confirm(join.last_received);
  if (!seat.session.is_whole()) {
    return refuse(id, peer, {ErrorCode::kTemporary, false, "too much was said meanwhile"});
  }
  if (const Id before = std::exchange(seat.peer, id); before != id) drop(before);
  peer.state = State::kMember;
  peer.link->set_last_received(seat.session.last_received());
  peer.link->set_silence_limit(world.members.silence_limit());
  // The first message tells the member what has been received here.
  world.members.on_returned(hello.number, now);
  for (const Session::SentMessage& message : seat.session.unconfirmed()) {
    peer.link->send(message.bytes, message.number);
  }
}

void ServerCore::refuse(Id id, Peer& peer, const Refusal& refusal) {
  if (!refusal.later) log_warning("the rendezvous refused: {}", refusal.text);
  peer.link->send(std::make_shared<const std::string>(encode(refusal)), 0);
  peer.link->close_when_sent();
  peers_.erase(id);
}

void ServerCore::on_connection_end(Id id, const ConnectionEnd& end, Clock::time_point now) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const State state = found->second.state;
  const bool has_hello = found->second.handshake.has_hello();
  const Hello hello = found->second.handshake.hello();
  peers_.erase(found);
  if (state == State::kUnproven && has_hello) {
    gate_.leave(id);
  } else if (state == State::kUnproven) {
    log_failed_hello(id, end.how + " before a whole hello had come", now);
  } else if (state == State::kMember) {
    world_of(hello.role)->members.on_connection_end(hello.number, end, now);
    judge_events(now);
  }
}

void ServerCore::drop(Id id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  found->second.link->close();
  peers_.erase(found);
}

void ServerCore::log_failed_hello(Id id, const std::string& reason, Clock::time_point now) {
  if (const auto line = gate_.failed(id, reason, now)) log_warning("{}", *line);
}

// ---------------------------------------------------------------------------------------------
// Time.

// If a launcher is lost, the ranks of its node are lost, too.
void ServerCore::end_ranks_of_lost_launchers(Clock::time_point now) {
  if (!launchers_) return;
  for (const auto& [number, how] : launchers_->members.take_lost_members()) {
    if (!ranks_) continue;
    const int node = launchers_->members.roster().member(number).node;
    ranks_->members.on_node_lost(node, "its launcher is gone: " + how, now);
  }
}

void ServerCore::judge(Clock::time_point now) {
  if (launchers_) launchers_->members.judge(now);
  end_ranks_of_lost_launchers(now);
  if (!ranks_) return;
  const std::optional<Verdict> verdict = ranks_->members.judge(now);
  if (!verdict) return;
  const int culprit = verdict->culprits.empty() ? -1 : verdict->culprits.front();
  if (launchers_) {
    launchers_->members.send_to_members(Failed{{culprit, verdict->code, verdict->reason}, false});
  }
  if (options_.on_verdict) options_.on_verdict(*verdict);
}

void ServerCore::judge_events(Clock::time_point now) {
  const bool is_due = (ranks_ && ranks_->members.has_event(now)) ||
                      (launchers_ && launchers_->members.has_event(now));
  if (is_due) judge(now);
}

bool ServerCore::is_urgent(Clock::time_point now) const {
  return (ranks_ && ranks_->members.is_urgent(now)) ||
         (launchers_ && launchers_->members.is_urgent(now));
}

std::chrono::milliseconds ServerCore::tick_period(Clock::time_point now) const {
  return is_urgent(now) ? kUrgentTickPeriod : kTickPeriod;
}

// Bytes may wait to be read that this thread had no time for.
void ServerCore::account_for_own_gap(Clock::time_point now) {
  const auto late = now - last_tick_ - kTickPeriod;
  last_tick_ = now;
  if (late <= kTickPeriod) return;
  gate_.account_for_own_gap(late, now);
  for (Proof& proof : proofs_) proof.time = std::min(now, proof.time + late);
}

void ServerCore::close_overdue_connections(Clock::time_point now) {
  while (const std::optional<Id> id = gate_.overdue(now)) {
    const auto peer = peers_.find(*id);
    if (peer != peers_.end() && !peer->second.handshake.has_hello()) {
      log_failed_hello(*id, "no whole hello within two seconds", now);
    }
    gate_.leave(*id);
    drop(*id);
  }
  while (!proofs_.empty()) {
    const auto peer = peers_.find(proofs_.front().peer);
    const bool waits = peer != peers_.end() && peer->second.state == State::kProven;
    if (waits && now - proofs_.front().time < kJoinRequestTimeout) break;
    if (waits) drop(proofs_.front().peer);
    proofs_.pop_front();
  }
}

void ServerCore::ping(Clock::time_point now) {
  last_ping_ = now;
  if (ranks_ && launchers_) launchers_->members.set_silence_limit(ranks_->members.silence_limit());
  for (const auto* world : {&launchers_, &ranks_}) {
    if (!*world) continue;
    const std::chrono::milliseconds silence = (*world)->members.silence_limit();
    for (const Seat& seat : (*world)->seats) {
      const auto peer = peers_.find(seat.peer);
      if (peer != peers_.end()) peer->second.link->set_silence_limit(silence);
    }
    (*world)->members.ping(now);
  }
}

void ServerCore::tick(Clock::time_point now) {
  account_for_own_gap(now);
  close_overdue_connections(now);
  if (now - last_ping_ >= kPingPeriod) ping(now);
  for (const auto* world : {&launchers_, &ranks_}) {
    if (!*world) continue;
    if (const auto line = (*world)->members.roll_call(now)) log_info("{}", *line);
    for (const std::string& line : (*world)->members.warnings()) log_warning("{}", line);
  }
  judge(now);
}

void ServerCore::stop(Clock::time_point now) {
  options_.on_verdict = nullptr;
  const std::string why = name_ + ", where all meet, has ended before all had joined";
  if (ranks_) ranks_->members.abandon(why);
  if (launchers_) launchers_->members.abandon(why);
  stop_by_ = now + options_.farewell;
}

bool ServerCore::may_end(Clock::time_point now) const {
  if (!stop_by_) return false;
  if (now >= *stop_by_) return true;
  const bool over =
      (!ranks_ || ranks_->members.is_over()) && (!launchers_ || launchers_->members.is_over());
  return over && std::all_of(peers_.begin(), peers_.end(), [](const auto& entry) {
           return entry.second.state != State::kMember || entry.second.link->all_sent();
         });
}

void ServerCore::close() {
  for (auto& [id, peer] : peers_) peer.link->close();
}

}  // namespace phalanx::rendezvous
