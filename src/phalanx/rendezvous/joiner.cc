#include "phalanx/rendezvous/joiner.h"

#include <algorithm>
#include <asio/error.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/rendezvous/handshake.h"
#include "phalanx/rendezvous/munge.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using Address = asio::generic::stream_protocol::endpoint;

class Joiner {
 public:
  Joiner(asio::io_context& context, const MemberOptions& options)
      : context_(context),
        work_(context.get_executor()),
        options_(options),
        secret_(options.secret),
        environment_(options.environment),
        address_text_(environment_.endpoint.to_text()),
        deadline_(Clock::now() + options.join_timeout) {}
  Joiner(const Joiner&) = delete;
  Joiner& operator=(const Joiner&) = delete;
  ~Joiner() = default;

  JoinedOverSocket run();

 private:
  // One attempt. False if another one may succeed; problem_ then says why this one failed.
  bool try_once();
  std::vector<Address> resolve();
  bool connect(const std::vector<Address>& addresses);
  bool ask_for_secret();
  bool shake_hands();
  bool ask_to_join();
  [[noreturn]] void throw_handshake_failure() const;
  [[noreturn]] void throw_gone(const std::string& how) const;
  [[noreturn]] void throw_unreachable() const;

  // Handles what arrives until `done` or `until`, and calls the caller's poll meanwhile.
  bool wait_until(Clock::time_point until, const std::function<bool()>& done);

  asio::io_context& context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  const MemberOptions& options_;
  Secret secret_;  // the given one, or MUNGE's
  const LaunchEnvironment& environment_;
  std::string address_text_;
  Clock::time_point deadline_;
  std::string problem_{};
  bool unresolved_logged_ = false;

  // Of the current attempt.
  std::shared_ptr<Connection> connection_{};
  std::string device_{};
  bool closed_early_ = false;  // by the coordinator, before the handshake was over

  // Of all attempts: an earlier one may have joined and lost its connection.
  const std::string session_name_ = random_digits(kUniqueDigits);
  Session session_{};
  std::optional<std::string> roll_call_{};  // the last one, if an attempt has joined
  Address address_{};
  JoinRequest request_{};
  std::optional<JoinAttempt> attempt_{};
};

bool Joiner::wait_until(Clock::time_point until, const std::function<bool()>& done) {
  Clock::time_point poll_at = Clock::now() + kPollPeriod;
  while (!done()) {
    const Clock::time_point now = Clock::now();
    if (now >= until) return false;
    if (now >= poll_at) {
      if (options_.poll) options_.poll();
      poll_at = now + kPollPeriod;
    }
    if (context_.stopped()) context_.restart();
    context_.run_one_until(std::min(until, poll_at));
  }
  return true;
}

JoinedOverSocket Joiner::run() {
  Clock::duration pause = kShortestPause;
  while (true) {
    if (options_.poll) options_.poll();
    if (try_once()) break;
    attempt_.reset();
    if (connection_) connection_->close();
    const Clock::time_point now = Clock::now();
    if (now + pause >= deadline_) throw_unreachable();
    // A connection that was closed early had to make room for others: the next may succeed soon.
    if (closed_early_) pause = kShortestPause;
    wait_until(now + pause, [] { return false; });
    pause = std::min<Clock::duration>(2 * pause, kLongestPause);
  }
  // try_once() has filled the attempt. NOLINTBEGIN(bugprone-unchecked-optional-access)
  return {{attempt_->take_link(), attempt_->take_opener(), std::move(session_), session_name_,
           secret_, *attempt_->welcome(), device_},
          address_};
  // NOLINTEND(bugprone-unchecked-optional-access)
}

bool Joiner::try_once() {
  connection_.reset();
  closed_early_ = false;
  const std::vector<Address> addresses = resolve();
  if (addresses.empty() || !connect(addresses)) return false;
  if (options_.with_munge && secret_.empty()) {
    if (!ask_for_secret() || !connect(addresses)) return false;
  }
  return shake_hands() && ask_to_join();
}

std::vector<Address> Joiner::resolve() {
  const Endpoint& endpoint = environment_.endpoint;
  if (endpoint.kind == Endpoint::Kind::kUnix) {
    return {asio::local::stream_protocol::endpoint('\0' + endpoint.name)};
  }
  using asio::ip::tcp;
  // Shared with the handler, which may run after this function has returned.
  struct Answer {
    bool there = false;
    asio::error_code error{};
    std::vector<Address> addresses{};
  };
  const auto answer = std::make_shared<Answer>();
  const auto resolver = std::make_shared<tcp::resolver>(context_);
  resolver->async_resolve(
      endpoint.host, std::to_string(endpoint.port),
      [answer, resolver](const asio::error_code& error, const tcp::resolver::results_type& found) {
        answer->there = true;
        answer->error = error;
        for (const auto& entry : found) answer->addresses.emplace_back(entry.endpoint());
      });
  if (!wait_until(deadline_, [&] { return answer->there; })) {
    problem_ = fmt::format("no name server answers for {}", endpoint.host);
    return {};
  }
  if (answer->error) {
    problem_ = fmt::format("the host name {} cannot be resolved: {}", endpoint.host,
                           answer->error.message());
    // The name may appear while the cluster starts, but a mistyped one should be seen at once.
    if (!std::exchange(unresolved_logged_, true)) log_warning("{}; trying again", problem_);
  }
  return answer->addresses;
}

bool Joiner::connect(const std::vector<Address>& addresses) {
  for (const Address& address : addresses) {
    const auto socket = std::make_shared<Socket>(context_);
    std::optional<asio::error_code> result;
    socket->async_connect(address,
                          [&result, socket](const asio::error_code& error) { result = error; });
    const Clock::time_point begun = Clock::now();
    const Clock::time_point until = std::min(deadline_, begun + kConnectTimeout);
    try {
      wait_until(until, [&] { return result.has_value(); });
    } catch (...) {
      // The handler refers to a variable of this function: wait until it has run.
      socket->close();
      while (!result && context_.run_one() > 0) continue;
      throw;
    }
    if (!result) {
      socket->close();
      while (!result && context_.run_one() > 0) continue;
      // If the deadline cuts an attempt short, the problem of the one before it says more.
      if (until < deadline_ || problem_.empty()) {
        problem_ = fmt::format("no answer within {:.1f} s",
                               std::chrono::duration<double>(until - begun).count());
      }
      continue;
    }
    if (*result) {
      problem_ = result->message();
      if (roll_call_ && *result == asio::error::connection_refused) throw_gone(problem_);
      continue;
    }
    address_ = address;
    device_ = interface_of(*socket);
    if (!is_trusted_user(*socket)) {
      throw PermissionError("{} belongs to {}: it is not this user's run", address_text_,
                            address_of(*socket));
    }
    connection_ = std::make_shared<Connection>(std::move(*socket));
    return true;
  }
  return false;
}

bool Joiner::ask_for_secret() {
  std::string answer;
  std::optional<std::string> credential;
  std::optional<std::string> end;
  connection_->start(
      [&](std::string_view bytes) {
        answer.append(bytes);
        if (!credential) credential = credential_in(answer);
      },
      [&](const ConnectionEnd& how) { end = how.how; });
  connection_->send_raw(std::string(credential_request()));
  const auto over = [&] { return credential || end; };
  const bool answered = wait_until(std::min(deadline_, Clock::now() + kHandshakeTimeout), over);
  connection_->close();
  if (!credential) {
    problem_ = answered ? *end : "it takes the connection and says nothing";
    closed_early_ = answered;
    return false;
  }
  if (credential->empty()) {
    throw PermissionError(
        "the coordinator at {} gives its secret to nobody (it runs without MUNGE): give "
        "--rdzv-secret-file on all hosts",
        address_text_);
  }
  secret_ = read_munge_credential(*credential);
  return true;
}

bool Joiner::shake_hands() {
  request_ = join_request(environment_, session_name_, session_.last_received());
  attempt_.emplace(
      connection_, secret_,
      Hello{options_.role, environment_.rank, environment_.attempt, environment_.run_id}, request_,
      session_);
  attempt_->start();
  const auto state = [this] { return attempt_->handshake().state(); };
  const auto over = [&] { return state() != HandshakeState::kPending || attempt_->end(); };
  if (!wait_until(std::min(deadline_, Clock::now() + kHandshakeTimeout), over)) {
    problem_ = "it takes the connection and says nothing";
    return false;
  }
  if (state() == HandshakeState::kFailed) throw_handshake_failure();
  if (state() == HandshakeState::kPending) {
    problem_ = attempt_->end()->how;
    closed_early_ = true;
    return false;
  }
  return true;
}

bool Joiner::ask_to_join() {
  const auto over = [this] {
    return attempt_->welcome() || attempt_->refusal() || attempt_->end();
  };
  const bool answered = wait_until(deadline_ + kJoinSlack, over);
  if (attempt_->roll_call()) roll_call_ = attempt_->roll_call();
  if (const std::optional<Welcome>& welcome = attempt_->welcome()) {
    if (welcome->places.ranks() != environment_.world_size) {
      throw UnavailableError("the coordinator at {} counts {} places instead of {}", address_text_,
                             welcome->places.ranks(), environment_.world_size);
    }
    return true;
  }
  if (const std::optional<Refusal>& refusal = attempt_->refusal()) {
    if (!refusal->later) throw Error(refusal->code, refusal->text);
    problem_ = refusal->text;
  } else if (const std::optional<ConnectionEnd>& end = attempt_->end()) {
    problem_ = end->how;
    const bool may_come_back =
        connection_->is_over_network() && end->kind != ConnectionEnd::Kind::kFault;
    if (roll_call_ && !may_come_back) throw_gone(problem_);
  } else if (!answered && roll_call_) {
    throw UnavailableError("not all have come within {:.3g} s: {}",
                           std::chrono::duration<double>(options_.join_timeout).count(),
                           *roll_call_);
  } else {
    problem_ = "it does not answer";
  }
  return false;
}

void Joiner::throw_handshake_failure() const {
  using Failure = ClientHandshake::Failure;
  const std::string own = secret_.empty() ? "none" : "from " + secret_.source();
  const ClientHandshake& handshake = attempt_->handshake();
  switch (handshake.failure()) {
    case Failure::kWrongSecret:
      throw PermissionError(
          "the coordinator at {} has another secret than this process ({}): the same file on all "
          "hosts (--rdzv-secret-file)",
          address_text_, own);
    case Failure::kImpostor:
      throw PermissionError(
          "who answers at {} does not know the run's secret ({}): it is not this run's "
          "coordinator",
          address_text_, own);
    case Failure::kVersion:
      throw ConfigError(
          "the coordinator at {} speaks version {} of the protocol, this program version {}: the "
          "same build on all hosts",
          address_text_, handshake.server_version(), kProtocolVersion);
    default:
      throw UnavailableError(
          "what answers at {} is no rendezvous of phalanx: another program has this port "
          "(MASTER_PORT, --master-port)",
          address_text_);
  }
}

void Joiner::throw_gone(const std::string& how) const {
  throw Error(ErrorCode::kTemporary,
              fmt::format("the coordinator at {} is gone before all had joined ({}): {}",
                          address_text_, roll_call_.value_or(""), how));
}

void Joiner::throw_unreachable() const {
  throw UnavailableError(
      "the coordinator at {} cannot be reached within {:.3g} s: {}; rank 0 or the first launcher "
      "listens there (MASTER_ADDR, MASTER_PORT)",
      address_text_, std::chrono::duration<double>(options_.join_timeout).count(), problem_);
}

}  // namespace

JoinedOverSocket join_coordinator(asio::io_context& context, const MemberOptions& options) {
  return Joiner(context, options).run();
}

}  // namespace phalanx::rendezvous
