#include "phalanx/rendezvous/server.h"

#include <unistd.h>

#include <algorithm>
#include <asio/dispatch.hpp>
#include <asio/post.hpp>
#include <exception>
#include <future>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/rendezvous/identity.h"
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

Server::Server(const CoordinatorOptions& options)
    : options_(options),
      run_id_(short_run_id(options.run_id)),
      credential_(options.with_munge ? make_munge_credential(options.secret) : ""),
      name_(host_of(options)),
      epoch_(options.epoch),
      work_(context_.get_executor()),
      timer_(context_) {
  Listener listener = listen(context_, options.endpoint, options.bind_any);
  endpoint_ = listener.endpoint;
  accept_loop_.emplace(
      std::move(listener.acceptors), [this] { return gate_.has_room(Clock::now()); },
      [this](Socket socket) { on_connection(std::move(socket)); });
  if (options_.launchers > 0) launchers_ = make_world(MemberRole::kLauncher, options_.launchers);
  start_attempt(options_.epoch, options_.world_size);
  accept_loop_->retry();
  thread_ = std::thread([this] { run(); });
}

Server::~Server() {
  asio::post(context_, [this] {
    options_.on_verdict = nullptr;
    const std::string why = name_ + ", where all meet, has ended before all had joined";
    if (ranks_) ranks_->members.abandon(why);
    if (launchers_) launchers_->members.abandon(why);
    stop_by_ = Clock::now() + options_.farewell;
    accept_loop_->stop();
    tick();
  });
  thread_.join();
}

void Server::run() {
  while (!context_.stopped()) {
    try {
      // A tick may have failed before it armed the timer.
      arm_timer();
      context_.run();
    } catch (const std::exception& error) {
      log_warning("the rendezvous: {}", error.what());
    }
  }
  for (auto& [id, peer] : peers_) peer.connection->close();
}

std::unique_ptr<Server::World> Server::make_world(MemberRole role, int size) {
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
  return std::make_unique<World>(World{Members(members, send_to, Clock::now()),
                                       std::vector<Seat>(static_cast<std::size_t>(size))});
}

void Server::send(MemberRole role, int number, const Members::Bytes& bytes, bool may_be_dropped) {
  Seat& seat = world_of(role)->seats[static_cast<std::size_t>(number)];
  const std::uint64_t of_message = may_be_dropped ? 0 : seat.session.add_sent(bytes);
  const auto peer = peers_.find(seat.peer);
  if (peer == peers_.end()) return;
  Connection& connection = *peer->second.connection;
  if (!may_be_dropped || connection.all_sent()) connection.send(bytes, of_message);
}

void Server::start_attempt(int epoch, int world_size) {
  epoch_ = epoch;
  if (ranks_) {
    for (const Seat& seat : ranks_->seats) {
      if (const auto peer = peers_.find(seat.peer); peer != peers_.end()) {
        peer->second.connection->close_when_sent();
        peers_.erase(peer);
      }
    }
  }
  ranks_ = world_size > 0 ? make_world(MemberRole::kRank, world_size) : nullptr;
}

void Server::begin_attempt(int epoch, int world_size) {
  PHALANX_CHECK(world_size > 0, "an attempt of {} ranks", world_size);
  // dispatch, not post: on_verdict may call this on the server's own thread.
  std::promise<void> done;
  asio::dispatch(context_, [&] {
    try {
      start_attempt(epoch, world_size);
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

void Server::rank_ended(int rank, const std::string& how) {
  asio::post(context_, [this, rank, how] {
    if (ranks_) ranks_->members.on_process_end(rank, how, Clock::now());
    judge();
  });
}

void Server::on_connection(Socket socket) {
  const std::string address = address_of(socket);
  const Id id = next_id_++;
  std::optional<Id> evicted;
  const Gate::Answer answer = gate_.enter(id, address, Clock::now(), evicted);
  if (evicted) drop(*evicted);
  if (answer != Gate::Answer::kEnter) return;
  if (!is_trusted_user(socket)) return log_failed_hello(id, "another user's process");
  try {
    start_handshake(id, std::move(socket));
  } catch (const std::exception&) {
    gate_.leave(id);
    drop(id);
    throw;
  }
}

void Server::start_handshake(Id id, Socket socket) {
  const auto connection = std::make_shared<Connection>(std::move(socket));
  Peer peer{connection, ServerHandshake(options_.secret, credential_)};
  peer.state_since = Clock::now();
  peers_.emplace(id, std::move(peer));
  connection->start([this, id](std::string_view bytes) { on_bytes(id, bytes); },
                    [this, id](const ConnectionEnd& how) { on_connection_end(id, how); });
}

void Server::on_bytes(Id id, std::string_view bytes) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (found->second.state == State::kUnproven) return on_handshake_bytes(id, found->second, bytes);
  found->second.opener->feed(bytes);
  // A message may end the connection, which removes the peer.
  for (auto peer = found; peer != peers_.end(); peer = peers_.find(id)) {
    const std::optional<OpenedMessage> message = peer->second.opener->next();
    if (!message) break;
    on_message(id, peer->second, *message);
  }
  judge();
}

void Server::on_handshake_bytes(Id id, Peer& peer, std::string_view bytes) {
  peer.connection->send_raw(peer.handshake.receive(bytes));
  if (peer.handshake.state() == HandshakeState::kFailed) {
    log_failed_hello(id, peer.handshake.reason());
    peer.connection->close_when_sent();
    peers_.erase(id);
  } else if (peer.handshake.state() == HandshakeState::kEnded) {
    gate_.leave(id);
    peer.connection->close_when_sent();
    peers_.erase(id);
  } else if (peer.handshake.state() == HandshakeState::kDone) {
    gate_.leave(id);
    peer.connection->seal_with(peer.handshake.keys().of_server);
    peer.opener.emplace(peer.handshake.keys().of_client, kLongestOfMember);
    peer.state = State::kProven;
    peer.state_since = Clock::now();
  }
}

void Server::on_message(Id id, Peer& peer, const OpenedMessage& opened) {
  const Hello& hello = peer.handshake.hello();
  ControlMessage message = decode(opened.text);
  if (peer.state == State::kMember) {
    World& world = *world_of(hello.role);
    Session& session = world.seats[static_cast<std::size_t>(hello.number)].session;
    session.confirm(opened.numbers.last_received);
    // A message that was sent again may have come before.
    if (opened.numbers.number != 0 && !session.accept(opened.numbers.number)) return;
    peer.connection->set_last_received(session.last_received());
    return world.members.on_message(hello.number, std::move(message), Clock::now());
  }
  const auto* request = std::get_if<JoinRequest>(&message);
  if (request == nullptr) throw UnavailableError("it speaks before it has joined");
  on_join_request(id, peer, *request);
}

std::optional<Refusal> Server::refusal_of(const Hello& hello) const {
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

void Server::on_join_request(Id id, Peer& peer, const JoinRequest& join) {
  const Hello hello = peer.handshake.hello();
  if (const std::optional<Refusal> refusal = refusal_of(hello)) return refuse(id, peer, *refusal);
  World& world = *world_of(hello.role);
  const auto number = static_cast<std::size_t>(hello.number);
  if (world.members.is_returning(hello.number, join)) return resume_member(id, peer, join);
  const Roster& roster = world.members.roster();
  // The seat needs its connection before Members::join(), which sends messages to all when the last
  // member joins.
  const bool is_free = hello.number < roster.size() && !roster.has(hello.number);
  if (is_free) world.seats[number].peer = id;
  if (const auto refusal = world.members.join(hello.number, join, Clock::now())) {
    if (is_free) world.seats[number].peer = 0;
    return refuse(id, peer, *refusal);
  }
  peer.state = State::kMember;
}

// A member that reconnects resumes its session. Its last connection may not have ended yet at this
// end.
void Server::resume_member(Id id, Peer& peer, const JoinRequest& join) {
  const Hello& hello = peer.handshake.hello();
  World& world = *world_of(hello.role);
  Seat& seat = world.seats[static_cast<std::size_t>(hello.number)];
  seat.session.confirm(join.last_received);
  if (!seat.session.is_whole()) {
    return refuse(id, peer, {ErrorCode::kTemporary, false, "too much was said meanwhile"});
  }
  if (const Id before = std::exchange(seat.peer, id); before != id) drop(before);
  peer.state = State::kMember;
  peer.connection->set_last_received(seat.session.last_received());
  peer.connection->set_silence_limit(world.members.silence_limit());
  // The first message tells the member what has been received here.
  world.members.on_returned(hello.number, Clock::now());
  for (const Session::SentMessage& message : seat.session.unconfirmed()) {
    peer.connection->send(message.bytes, message.number);
  }
}

void Server::refuse(Id id, Peer& peer, const Refusal& refusal) {
  if (!refusal.later) log_warning("the rendezvous refused: {}", refusal.text);
  peer.connection->send(std::make_shared<const std::string>(encode(refusal)));
  peer.connection->close_when_sent();
  peers_.erase(id);
}

void Server::on_connection_end(Id id, const ConnectionEnd& end) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const State state = found->second.state;
  const Hello hello = found->second.handshake.hello();
  peers_.erase(found);
  if (state == State::kUnproven) {
    log_failed_hello(id, end.how + " before a whole hello had come");
  } else if (state == State::kMember) {
    world_of(hello.role)->members.on_connection_end(hello.number, end, Clock::now());
    judge();
  }
}

// If a launcher is lost, the ranks of its node are lost, too.
void Server::end_ranks_of_lost_launchers(Clock::time_point now) {
  if (!launchers_) return;
  for (const auto& [number, how] : launchers_->members.take_lost_members()) {
    if (!ranks_) continue;
    const int node = launchers_->members.roster().member(number).node;
    ranks_->members.on_node_lost(node, "its launcher is gone: " + how, now);
  }
}

void Server::drop(Id id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  found->second.connection->close();
  peers_.erase(found);
}

void Server::log_failed_hello(Id id, const std::string& reason) {
  if (const auto line = gate_.failed(id, reason, Clock::now())) log_warning("{}", *line);
}

void Server::judge() {
  const Clock::time_point now = Clock::now();
  if (launchers_) launchers_->members.judge(now);
  end_ranks_of_lost_launchers(now);
  if (ranks_) {
    if (const std::optional<Verdict> verdict = ranks_->members.judge(now)) {
      const int culprit = verdict->culprits.empty() ? -1 : verdict->culprits.front();
      if (launchers_) {
        launchers_->members.send_to_members(
            Failed{{culprit, verdict->code, verdict->reason}, false});
      }
      if (options_.on_verdict) options_.on_verdict(*verdict);
    }
  }
  if ((ranks_ && ranks_->members.is_urgent(now)) ||
      (launchers_ && launchers_->members.is_urgent(now))) {
    arm_timer();
  }
}

void Server::arm_timer() {
  const Clock::time_point now = Clock::now();
  const bool urgent = (ranks_ && ranks_->members.is_urgent(now)) ||
                      (launchers_ && launchers_->members.is_urgent(now));
  timer_.expires_after(urgent ? kUrgentTickPeriod : kTickPeriod);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

void Server::close_overdue_connections(Clock::time_point now) {
  while (const std::optional<Id> id = gate_.overdue(now)) {
    log_failed_hello(*id, "no whole hello within two seconds");
    gate_.leave(*id);
    drop(*id);
  }
  for (auto entry = peers_.begin(); entry != peers_.end();) {
    Peer& peer = entry->second;
    if (peer.state == State::kProven && now - peer.state_since >= kJoinRequestTimeout) {
      peer.connection->close();
      entry = peers_.erase(entry);
    } else {
      ++entry;
    }
  }
}

bool Server::may_stop(Clock::time_point now) const {
  if (now >= *stop_by_) return true;
  const bool over =
      (!ranks_ || ranks_->members.is_over()) && (!launchers_ || launchers_->members.is_over());
  return over && std::all_of(peers_.begin(), peers_.end(), [](const auto& entry) {
           return entry.second.state != State::kMember || entry.second.connection->all_sent();
         });
}

void Server::ping(Clock::time_point now) {
  last_ping_ = now;
  if (ranks_ && launchers_) launchers_->members.set_silence_limit(ranks_->members.silence_limit());
  for (const auto* world : {&launchers_, &ranks_}) {
    if (!*world) continue;
    const std::chrono::milliseconds silence = (*world)->members.silence_limit();
    for (const Seat& seat : (*world)->seats) {
      const auto peer = peers_.find(seat.peer);
      if (peer != peers_.end()) peer->second.connection->set_silence_limit(silence);
    }
    (*world)->members.ping(now);
  }
}

void Server::tick() {
  // Armed first: an exception below must not end the ticks.
  arm_timer();
  const Clock::time_point now = Clock::now();
  close_overdue_connections(now);
  accept_loop_->retry();
  if (now - last_ping_ >= kPingPeriod) ping(now);
  for (const auto* world : {&launchers_, &ranks_}) {
    if (!*world) continue;
    if (const auto line = (*world)->members.roll_call(now)) log_info("{}", *line);
    for (const std::string& line : (*world)->members.warnings()) log_warning("{}", line);
  }
  judge();
  if (stop_by_ && may_stop(now)) context_.stop();
}

}  // namespace phalanx::rendezvous
