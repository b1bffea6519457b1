#include "phalanx/comm/rendezvous/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "phalanx/comm/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

// A peer that somebody stopped is told from one that hangs.
TEST(Connection, KnowsAStoppedPeerOfItsHost) {
  // The peer is who listens: a process that does nothing else.
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

}  // namespace
}  // namespace phalanx::rendezvous
