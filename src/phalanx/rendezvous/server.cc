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
#include "phalanx/rendezvous/identity.h"
#include "phalanx/rendezvous/munge.h"

namespace phalanx::rendezvous {
namespace {

constexpr auto kLongest = std::chrono::hours(24 * 365);
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kUrgentTick = std::chrono::milliseconds(10);
constexpr auto kPingEvery = std::chrono::milliseconds(500);
// For a launcher to say how a process ended whose connection did.
constexpr auto kHold = std::chrono::milliseconds(30);
// From the proof to the request to join.
constexpr auto kJoinDeadline = std::chrono::seconds(5);

std::string host_of(const CoordinatorOptions& options) {
  return fmt::format("{} (host {}, pid {})", options.launchers > 0 ? "the launcher" : "rank 0",
                     own_host_name(), ::getpid());
}

}  // namespace

Server::Server(const CoordinatorOptions& options)
    : options_(options),
      run_id_(short_run_id(options.run_id)),
      credential_(options.with_munge ? make_munge_credential(options.secret) : ""),
      who_(host_of(options)),
      epoch_(options.epoch),
      work_(context_.get_executor()),
      timer_(context_) {
  Listener listener = listen(context_, options.endpoint, options.bind_any);
  endpoint_ = listener.endpoint;
  accept_loop_.emplace(
      std::move(listener.acceptors), [this] { return gate_.has_room(Clock::now()); },
      [this](Socket socket) { greet(std::move(socket)); });
  if (options_.launchers > 0) launchers_ = assemble(MemberRole::kLauncher, options_.launchers);
  start_attempt(options_.epoch, options_.world_size);
  accept_loop_->wake();
  thread_ = std::thread([this] { run(); });
}

Server::~Server() {
  asio::post(context_, [this] {
    options_.on_verdict = nullptr;
    const std::string why = who_ + ", where all meet, has ended before all had joined";
    if (ranks_) ranks_->group.abandon(why);
    if (launchers_) launchers_->group.abandon(why);
    stop_by_ = Clock::now() + options_.farewell;
    accept_loop_->stop();
    tick();
  });
  thread_.join();
}

void Server::run() {
  while (!context_.stopped()) {
    try {
      // Also after a tick that failed before it had armed it.
      arm_timer();
      context_.run();
    } catch (const std::exception& error) {
      log_warning("the rendezvous: {}", error.what());
    }
  }
  for (auto& [id, peer] : peers_) peer.connection->close();
}

std::unique_ptr<Server::Assembly> Server::assemble(MemberRole role, int size) {
  GroupOptions group;
  group.noun = role == MemberRole::kRank ? "rank" : "launcher";
  group.size = size;
  group.coordinator = who_;
  group.hosted_by = role == MemberRole::kRank && options_.launchers > 0 ? -1 : 0;
  group.limits = options_.limits;
  const bool joins = role != MemberRole::kRank || options_.ranks_join;
  group.join_timeout = joins ? options_.join_timeout : kLongest;
  group.over_network = options_.endpoint.kind == Endpoint::Kind::kTcp;
  if (role == MemberRole::kRank && options_.launchers > 0) group.hold = kHold;
  const auto send_to = [this, role](int number, const Group::Bytes& bytes, bool may_be_dropped) {
    send(role, number, bytes, may_be_dropped);
  };
  return std::make_unique<Assembly>(Assembly{Group(group, send_to, Clock::now()),
                                             std::vector<Seat>(static_cast<std::size_t>(size))});
}

void Server::send(MemberRole role, int number, const Group::Bytes& bytes, bool may_be_dropped) {
  Seat& seat = assembly_of(role)->seats[static_cast<std::size_t>(number)];
  const std::uint64_t of_message = may_be_dropped ? 0 : seat.session.say(bytes);
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
  ranks_ = world_size > 0 ? assemble(MemberRole::kRank, world_size) : nullptr;
}

void Server::begin_attempt(int epoch, int world_size) {
  PHALANX_CHECK(world_size > 0, "an attempt of {} ranks", world_size);
  // dispatch: on_verdict may call it, on the thread that would otherwise be waited for.
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
    if (ranks_) ranks_->group.ended(rank, how, Clock::now());
    settle();
  });
}

void Server::greet(Socket socket) {
  const std::string address = address_of(socket);
  const Id id = next_id_++;
  std::optional<Id> evicted;
  const Gate::Answer answer = gate_.enter(id, address, Clock::now(), evicted);
  if (evicted) drop(*evicted);
  if (answer != Gate::Answer::kEnter) return;
  if (!is_trusted_user(socket)) return log_failed_hello(id, "another user's process");
  try {
    admit(id, std::move(socket));
  } catch (const std::exception&) {
    gate_.leave(id);
    drop(id);
    throw;
  }
}

void Server::admit(Id id, Socket socket) {
  const auto connection = std::make_shared<Connection>(std::move(socket));
  Peer peer{connection, ServerHandshake(options_.secret, credential_)};
  peer.since = Clock::now();
  peers_.emplace(id, std::move(peer));
  connection->start([this, id](std::string_view bytes) { hear(id, bytes); },
                    [this, id](const ConnectionEnd& how) { end(id, how); });
}

void Server::hear(Id id, std::string_view bytes) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (found->second.state == State::kUnproven) return prove(id, found->second, bytes);
  found->second.opener->feed(bytes);
  // What it says may end the connection, and with it the peer.
  for (auto peer = found; peer != peers_.end(); peer = peers_.find(id)) {
    const std::optional<OpenedMessage> message = peer->second.opener->next();
    if (!message) break;
    take(id, peer->second, *message);
  }
  settle();
}

void Server::prove(Id id, Peer& peer, std::string_view bytes) {
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
    peer.since = Clock::now();
  }
}

void Server::take(Id id, Peer& peer, const OpenedMessage& opened) {
  const Hello& hello = peer.handshake.hello();
  Message message = decode(opened.text);
  if (peer.state == State::kMember) {
    Assembly& assembly = *assembly_of(hello.role);
    Session& session = assembly.seats[static_cast<std::size_t>(hello.number)].session;
    session.confirm(opened.numbers.heard);
    // Said again, and heard before.
    if (opened.numbers.number != 0 && !session.hear(opened.numbers.number)) return;
    peer.connection->set_heard(session.heard());
    return assembly.group.heard(hello.number, std::move(message), Clock::now());
  }
  const auto* request = std::get_if<JoinRequest>(&message);
  if (request == nullptr) throw UnavailableError("it speaks before it has joined");
  join(id, peer, *request);
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
                   who_ + " has no launcher of this run: how were the others started?"};
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

void Server::join(Id id, Peer& peer, const JoinRequest& join) {
  const Hello hello = peer.handshake.hello();
  if (const std::optional<Refusal> refusal = refusal_of(hello)) return refuse(id, peer, *refusal);
  Assembly& assembly = *assembly_of(hello.role);
  const auto number = static_cast<std::size_t>(hello.number);
  if (assembly.group.knows(hello.number, join)) return resume(id, peer, join);
  const Roster& roster = assembly.group.roster();
  // Known before it is told anything: with the last one all are, that everybody is there.
  const bool is_free = hello.number < roster.size() && !roster.has(hello.number);
  if (is_free) assembly.seats[number].peer = id;
  if (const auto refusal = assembly.group.join(hello.number, join, Clock::now())) {
    if (is_free) assembly.seats[number].peer = 0;
    return refuse(id, peer, *refusal);
  }
  peer.state = State::kMember;
}

// Who comes again goes on where its last connection ended, whether that has ended here already or
// not.
void Server::resume(Id id, Peer& peer, const JoinRequest& join) {
  const Hello& hello = peer.handshake.hello();
  Assembly& assembly = *assembly_of(hello.role);
  Seat& seat = assembly.seats[static_cast<std::size_t>(hello.number)];
  seat.session.confirm(join.heard);
  if (!seat.session.is_whole()) {
    return refuse(id, peer, {ErrorCode::kTemporary, false, "too much was said meanwhile"});
  }
  if (const Id before = std::exchange(seat.peer, id); before != id) drop(before);
  peer.state = State::kMember;
  peer.connection->set_heard(seat.session.heard());
  peer.connection->set_silence(assembly.group.silence());
  // First what says how much has been heard here.
  assembly.group.resumed(hello.number, Clock::now());
  for (const Session::Said& said : seat.session.unconfirmed()) {
    peer.connection->send(said.bytes, said.number);
  }
}

void Server::refuse(Id id, Peer& peer, const Refusal& refusal) {
  if (!refusal.later) log_warning("the rendezvous refused: {}", refusal.text);
  peer.connection->send(std::make_shared<const std::string>(encode(refusal)));
  peer.connection->close_when_sent();
  peers_.erase(id);
}

void Server::end(Id id, const ConnectionEnd& end) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const State state = found->second.state;
  const Hello hello = found->second.handshake.hello();
  peers_.erase(found);
  if (state == State::kUnproven) {
    log_failed_hello(id, end.how + " before a whole hello had come");
  } else if (state == State::kMember) {
    assembly_of(hello.role)->group.lost(hello.number, end, Clock::now());
    settle();
  }
}

// And with them the ranks of their nodes.
void Server::take_lost_launchers(Clock::time_point now) {
  if (!launchers_) return;
  for (const auto& [number, how] : launchers_->group.lost_members()) {
    if (!ranks_) continue;
    const int node = launchers_->group.roster().member(number).node;
    ranks_->group.node_lost(node, "its launcher is gone: " + how, now);
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

void Server::settle() {
  const Clock::time_point now = Clock::now();
  if (launchers_) launchers_->group.judge(now);
  take_lost_launchers(now);
  if (ranks_) {
    if (const std::optional<Verdict> verdict = ranks_->group.judge(now)) {
      const int culprit = verdict->culprits.empty() ? -1 : verdict->culprits.front();
      if (launchers_) {
        launchers_->group.tell_members(Failed{{culprit, verdict->code, verdict->reason}, false});
      }
      if (options_.on_verdict) options_.on_verdict(*verdict);
    }
  }
  if ((ranks_ && ranks_->group.is_urgent(now)) ||
      (launchers_ && launchers_->group.is_urgent(now))) {
    arm_timer();
  }
}

void Server::arm_timer() {
  const Clock::time_point now = Clock::now();
  const bool urgent =
      (ranks_ && ranks_->group.is_urgent(now)) || (launchers_ && launchers_->group.is_urgent(now));
  timer_.expires_after(urgent ? kUrgentTick : kTick);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

void Server::turn_away_late_ones(Clock::time_point now) {
  while (const std::optional<Id> id = gate_.overdue(now)) {
    log_failed_hello(*id, "no whole hello within two seconds");
    gate_.leave(*id);
    drop(*id);
  }
  for (auto entry = peers_.begin(); entry != peers_.end();) {
    Peer& peer = entry->second;
    if (peer.state == State::kProven && now - peer.since >= kJoinDeadline) {
      peer.connection->close();
      entry = peers_.erase(entry);
    } else {
      ++entry;
    }
  }
}

bool Server::may_go(Clock::time_point now) const {
  if (now >= *stop_by_) return true;
  const bool over = (!ranks_ || ranks_->group.over()) && (!launchers_ || launchers_->group.over());
  return over && std::all_of(peers_.begin(), peers_.end(), [](const auto& entry) {
           return entry.second.state != State::kMember || entry.second.connection->all_sent();
         });
}

void Server::ping(Clock::time_point now) {
  pinged_ = now;
  if (ranks_ && launchers_) launchers_->group.set_silence(ranks_->group.silence());
  for (const auto* assembly : {&launchers_, &ranks_}) {
    if (!*assembly) continue;
    const std::chrono::milliseconds silence = (*assembly)->group.silence();
    for (const Seat& seat : (*assembly)->seats) {
      const auto peer = peers_.find(seat.peer);
      if (peer != peers_.end()) peer->second.connection->set_silence(silence);
    }
    (*assembly)->group.ping(now);
  }
}

void Server::tick() {
  // Whatever is thrown below, the next one comes.
  arm_timer();
  const Clock::time_point now = Clock::now();
  turn_away_late_ones(now);
  accept_loop_->wake();
  if (now - pinged_ >= kPingEvery) ping(now);
  for (const auto* assembly : {&launchers_, &ranks_}) {
    if (!*assembly) continue;
    if (const auto line = (*assembly)->group.roll_call(now)) log_info("{}", *line);
    for (const std::string& line : (*assembly)->group.warnings()) log_warning("{}", line);
  }
  settle();
  if (stop_by_ && may_go(now)) context_.stop();
}

}  // namespace phalanx::rendezvous
