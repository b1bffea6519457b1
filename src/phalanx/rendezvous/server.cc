#include "phalanx/rendezvous/server.h"

#include <asio/dispatch.hpp>
#include <asio/post.hpp>
#include <exception>
#include <future>
#include <utility>

#include "phalanx/base/descriptor_limit.h"
#include "phalanx/base/error.h"
#include "phalanx/base/log.h"

namespace phalanx::rendezvous {

namespace {

// A descriptor for every member, and for those that have not proved themselves.
void make_room(int members, const char* noun) {
  constexpr int kFew = 64;  // that need no look at the limit
  if (members <= kFew) return;
  raise_descriptor_limit(static_cast<std::size_t>(members) + Gate::kMostPending,
                         fmt::format("the coordinator of {} {}s", members, noun));
}

}  // namespace

Server::Server(const CoordinatorOptions& options)
    : ranks_join_(options.ranks_join),
      work_(context_.get_executor()),
      timer_(context_),
      core_(options, Clock::now()) {
  if (ranks_join_) make_room(options.world_size, "rank");
  make_room(options.launchers, "launcher");
  Listener listener = listen(context_, options.endpoint, options.bind_any);
  endpoint_ = listener.endpoint;
  accept_loop_.emplace(
      std::move(listener.acceptors), [this] { return core_.has_room(Clock::now()); },
      [this](Socket socket) { on_connection(std::move(socket)); });
  accept_loop_->retry();
  thread_ = std::thread([this] { run(); });
}

Server::~Server() {
  asio::post(context_, [this] {
    core_.stop(Clock::now());
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
  core_.close();
}

void Server::begin_attempt(int epoch, int world_size) {
  PHALANX_CHECK(world_size > 0, "an attempt of {} ranks", world_size);
  if (ranks_join_) make_room(world_size, "rank");
  // dispatch, not post: on_verdict may call this on the server's own thread.
  std::promise<void> done;
  asio::dispatch(context_, [&] {
    try {
      core_.begin_attempt(epoch, world_size, Clock::now());
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

void Server::rank_ended(int rank, const std::string& how) {
  asio::post(context_, [this, rank, how] {
    core_.rank_ended(rank, how, Clock::now());
    after_event();
  });
}

void Server::on_connection(Socket socket) {
  const std::optional<Id> id =
      core_.enter(address_of(socket), is_trusted_user(socket), Clock::now());
  if (!id) return;
  try {
    const auto connection = std::make_shared<Connection>(std::move(socket));
    core_.open(*id, connection);
    connection->start(
        [this, id = *id](std::string_view bytes) {
          core_.on_bytes(id, bytes, Clock::now());
          after_event();
        },
        [this, id = *id](const ConnectionEnd& end) {
          core_.on_connection_end(id, end, Clock::now());
          after_event();
        });
  } catch (const std::exception&) {
    core_.dismiss(*id);
    throw;
  }
}

void Server::after_event() {
  const Clock::time_point now = Clock::now();
  // Not put off by every event: there may be thousands before it expires.
  if (timer_.expiry() > now + core_.tick_period(now)) arm_timer();
  if (accept_loop_->is_waiting() && core_.has_room(now)) accept_loop_->retry();
}

void Server::arm_timer() {
  timer_.expires_after(core_.tick_period(Clock::now()));
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

void Server::tick() {
  // Armed first: an exception below must not end the ticks.
  arm_timer();
  const Clock::time_point now = Clock::now();
  core_.tick(now);
  accept_loop_->retry();
  if (core_.is_urgent(now)) arm_timer();
  if (core_.may_end(now)) context_.stop();
}

}  // namespace phalanx::rendezvous
