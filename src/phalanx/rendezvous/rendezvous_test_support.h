#pragma once
// Coordinators and members in one process, and clients that send what no member would.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/rendezvous/coordinator.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/handshake.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/message.h"

namespace phalanx::rendezvous {

inline Endpoint unix_endpoint() {
  return {Endpoint::Kind::kUnix, "phalanx-test-" + random_digits(16), {}, 0};
}
inline Endpoint tcp_endpoint(std::string host) {
  return {Endpoint::Kind::kTcp, {}, std::move(host), 0};
}

inline CoordinatorOptions coordinator_options(const Endpoint& endpoint, int world_size) {
  CoordinatorOptions options;
  options.endpoint = endpoint;
  options.secret = make_secret();
  options.run_id = "run";
  options.world_size = world_size;
  options.join_timeout = std::chrono::seconds(30);
  return options;
}

inline MemberOptions member_options(const Coordinator& coordinator,
                                    const CoordinatorOptions& of_coordinator, int rank) {
  MemberOptions options;
  options.environment.rank = rank;
  options.environment.world_size = of_coordinator.world_size;
  options.environment.local_rank = rank;
  options.environment.local_size = of_coordinator.world_size;
  options.environment.run_id = of_coordinator.run_id;
  options.environment.attempt = of_coordinator.epoch;
  options.environment.endpoint = coordinator.endpoint();
  options.secret = of_coordinator.secret;
  options.join_timeout = std::chrono::seconds(30);
  return options;
}

// Runs `body` for each of `count` at the same time; rethrows an exception after all have ended.
inline void run_all(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < count; ++number) {
      threads.emplace_back([&, number] {
        try {
          body(number);
        } catch (...) {
          errors[static_cast<std::size_t>(number)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// All members, joined.
inline std::vector<std::unique_ptr<Member>> join_all(
    const Coordinator& coordinator, const CoordinatorOptions& options,
    const std::function<void(MemberOptions&)>& change = [](MemberOptions&) {}) {
  std::vector<std::unique_ptr<Member>> members(static_cast<std::size_t>(options.world_size));
  run_all(options.world_size, [&](int rank) {
    MemberOptions of_rank = member_options(coordinator, options, rank);
    change(of_rank);
    members[static_cast<std::size_t>(rank)] = Member::join(of_rank);
  });
  return members;
}

inline void leave_all(std::vector<std::unique_ptr<Member>>& members) {
  run_all(static_cast<int>(members.size()), [&](int rank) {
    if (auto& member = members[static_cast<std::size_t>(rank)]) member->leave();
  });
  members.clear();
}

// The code and text of the error that `body` throws; 0 without one.
inline std::pair<int, std::string> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.exit_status(), error.what()};
  }
  return {0, ""};
}

// Waits for a condition, with a limit far above what it should take.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A socket that sends any bytes or messages.
class RawClient {
 public:
  explicit RawClient(const Endpoint& endpoint) {
    sockaddr_storage storage{};
    socklen_t size = 0;
    if (endpoint.kind == Endpoint::Kind::kUnix) {
      auto* address = reinterpret_cast<sockaddr_un*>(&storage);
      address->sun_family = AF_UNIX;
      std::memcpy(address->sun_path + 1, endpoint.name.data(), endpoint.name.size());
      size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + endpoint.name.size());
    } else {
      auto* address = reinterpret_cast<sockaddr_in*>(&storage);
      address->sin_family = AF_INET;
      address->sin_port = htons(static_cast<std::uint16_t>(endpoint.port));
      address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      size = sizeof(*address);
    }
    socket_ = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&storage), size) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  bool send(std::string_view bytes) const {
    return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // The bytes that come within the time; empty also at the connection's end.
  std::string receive(int limit_ms = 20000) const {
    pollfd entry{socket_, POLLIN, 0};
    if (::poll(&entry, 1, limit_ms) <= 0) return {};
    std::string bytes(65536, '\0');
    const ssize_t size = ::recv(socket_, bytes.data(), bytes.size(), 0);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }

  // Proves that it knows the secret; whether the server accepted it.
  bool prove(const Secret& secret, const Hello& hello) {
    ClientHandshake handshake(secret, hello);
    send(handshake.start());
    while (handshake.state() == HandshakeState::kPending) {
      const std::string bytes = receive();
      if (bytes.empty()) return false;
      send(handshake.receive(bytes));
    }
    if (handshake.state() != HandshakeState::kDone) return false;
    sealer_.emplace(handshake.keys().of_client);
    opener_.emplace(handshake.keys().of_server, kLongestOfCoordinator);
    opener_->feed(handshake.rest());
    return true;
  }
  bool send_message(const ControlMessage& message) {
    return send(sealer_->seal_all(encode(message)));
  }
  // The next message; empty at the connection's end.
  std::optional<ControlMessage> receive_message() {
    while (true) {
      if (const auto message = opener_->next()) return decode(message->text);
      const std::string bytes = receive();
      if (bytes.empty()) return std::nullopt;
      opener_->feed(bytes);
    }
  }

 private:
  int socket_ = -1;
  bool connected_ = false;
  std::optional<FrameSealer> sealer_{};
  std::optional<FrameOpener> opener_{};
};

}  // namespace phalanx::rendezvous
