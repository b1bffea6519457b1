#include "phalanx/rendezvous/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "phalanx/rendezvous/accept_loop.h"
#include "phalanx/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

// A stopped peer is distinguished from one that hangs.
TEST(Connection, KnowsAStoppedPeerOfItsHost) {
  // The peer is the listening process, which does nothing else.
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "phalanx-connection-test-" + std::to_string(::getpid());
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // without a file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  const int peer = ::fork();
  if (peer == 0) {
    ::listen(listener, 1);
    while (true) ::pause();
  }
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_TRUE(eventually(
      [&] { return ::connect(client, reinterpret_cast<sockaddr*>(&address), size) == 0; }));
  asio::io_context context;
  const auto connection = std::make_shared<Connection>(Socket(context, {AF_UNIX, 0}, client));
  EXPECT_FALSE(connection->peer_is_stopped());
  ::kill(peer, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return connection->peer_is_stopped(); }));
  ::kill(peer, SIGCONT);
  EXPECT_TRUE(eventually([&] { return !connection->peer_is_stopped(); }));
  ::kill(peer, SIGKILL);
  ::waitpid(peer, nullptr, 0);
  ::close(listener);
}

using std::chrono::seconds;

// Two ends of a connection on this thread.
struct Ends {
  explicit Ends(asio::io_context& context) {
    using asio::local::stream_protocol;
    stream_protocol::socket one(context);
    stream_protocol::socket other(context);
    asio::local::connect_pair(one, other);
    near = std::make_shared<Connection>(Socket(std::move(one)));
    far = std::make_shared<Connection>(Socket(std::move(other)));
  }
  std::shared_ptr<Connection> near;
  std::shared_ptr<Connection> far;
};

// Runs the context until `done`, with a limit far above what it takes.
bool run_until(asio::io_context& context, const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (!done()) {
    if (context.stopped()) context.restart();
    if (context.run_one_until(until) == 0) return done();
  }
  return true;
}

TEST(Connection, WhateverIsThrownAtItsBytesEndsItAndNoOther) {
  asio::io_context context;
  const Ends bad(context);
  const Ends good(context);
  std::string end;
  std::string heard;
  bad.near->start([](std::string_view) { throw std::bad_alloc(); },
                  [&](const ConnectionEnd& how) { end = how.how; });
  good.near->start([&](std::string_view bytes) { heard += bytes; }, [](const ConnectionEnd&) {});
  bad.far->send_raw("x");
  good.far->send_raw("one");
  ASSERT_TRUE(run_until(context, [&] { return !end.empty() && heard == "one"; }));
  EXPECT_EQ(end, "its connection was ended: std::bad_alloc");
  EXPECT_FALSE(bad.near->is_open());
  good.far->send_raw(" two");
  EXPECT_TRUE(run_until(context, [&] { return heard == "one two"; }));
}

TEST(Connection, WhatCannotBeSentEndsItAndNotItsSender) {
  asio::io_context context;
  const Ends ends(context);
  std::string end;
  ends.near->start([](std::string_view) {}, [&](const ConnectionEnd& how) { end = how.how; });
  // Without a key.
  EXPECT_NO_THROW(ends.near->send(std::make_shared<const std::string>("message"), 0));
  EXPECT_EQ(end, "");
  ASSERT_TRUE(run_until(context, [&] { return !end.empty(); }));
  EXPECT_NE(end.find("a message before the handshake's end"), std::string::npos) << end;
}

TEST(AcceptLoop, AConnectionThatCannotBeTakenIsNotTheLast) {
  asio::io_context context;
  Listener listener = listen(context, unix_endpoint(), false);
  int came = 0;
  AcceptLoop loop(
      std::move(listener.acceptors), [] { return true; },
      [&](const Socket&) {
        if (++came < 3) throw std::length_error("too long");
      });
  loop.retry();
  for (int client = 0; client < 4; ++client) {
    const RawClient raw(listener.endpoint);
    ASSERT_TRUE(raw.connected());
    EXPECT_TRUE(run_until(context, [&] { return came == client + 1; })) << client;
  }
}

TEST(AcceptLoop, RestsWhileThereIsNoRoom) {
  asio::io_context context;
  Listener listener = listen(context, unix_endpoint(), false);
  bool has_room = false;
  int came = 0;
  AcceptLoop loop(
      std::move(listener.acceptors), [&] { return has_room; }, [&](const Socket&) { ++came; });
  loop.retry();
  const RawClient raw(listener.endpoint);
  context.poll();
  EXPECT_EQ(came, 0);
  has_room = true;
  loop.retry();
  EXPECT_TRUE(run_until(context, [&] { return came == 1; }));
}

}  // namespace
}  // namespace phalanx::rendezvous
