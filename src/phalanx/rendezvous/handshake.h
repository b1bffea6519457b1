#pragma once
// How two ends prove to each other that they know the run's secret, before anything else is said:
//
//   client: magic (8) | version (2) | role (1) | number (4) | epoch (4) | n (1) | run id (n) |
//           nonce (32)
//   server: magic (8) | version (2) | status (1) | nonce (32)
//   client: HMAC(secret, "phalanx client" | all of the above)                             (32)
//   server: status (1) | HMAC(secret, "phalanx server" | all of the above)                (32)
//
// A client that has no secret may, instead of a hello, ask for a credential of MUNGE that holds it:
//
//   client: "PHLXMUNG"
//   server: magic (8) | version (2) | n (2) | credential (n)
//
// and connects again with the secret. The client proves itself first, so that a process without the
// secret gets nothing that is made with it. The keys of the connection come from the secret and
// both nonces. These classes turn received bytes into bytes to send; they have no socket and no
// clock.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/crypto.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx::rendezvous {

inline constexpr int kProtocolVersion = 3;
// How many bytes the server takes from a client that has proved nothing.
inline constexpr std::size_t kLongestUnproven = 256;

// The process that wants to connect.
struct Hello {
  MemberRole role = MemberRole::kRank;
  int number = 0;  // rank, or node of a launcher
  int epoch = 0;
  std::string run_id{};  // a long one is sent as its hash
};

// As it is sent and compared: a long one becomes its hash.
std::string short_run_id(const std::string& run_id);

struct SessionKeys {
  Key of_client{};
  Key of_server{};
};

// kEnded: the client has asked for the credential and got the answer; it will connect again.
enum class HandshakeState : std::uint8_t { kPending, kDone, kFailed, kEnded };

// What a client sends to ask for the credential.
std::string_view credential_request();
// The credential in what the server has answered so far: nothing until it is complete, empty if the
// server gives none. UnavailableError if the answer is not one of this protocol.
std::optional<std::string> credential_in(std::string_view answer);

class ServerHandshake {
 public:
  // `credential`: given to each client that asks; empty: to none.
  explicit ServerHandshake(const Secret& secret, std::string_view credential = {})
      : secret_(secret), credential_(credential) {}

  // The answer to send, maybe empty; there may be one when it has just failed, too. Not to be
  // called once the state is no longer kPending.
  std::string receive(std::string_view bytes);

  HandshakeState state() const { return state_; }
  // Whether the client has said who it is, and owes the proof only.
  bool has_hello() const { return phase_ == Phase::kProof; }
  const Hello& hello() const { return hello_; }          // if kDone
  const SessionKeys& keys() const { return keys_; }      // if kDone
  const std::string& reason() const { return reason_; }  // if kFailed, for the log

 private:
  enum class Phase : std::uint8_t { kHello, kProof };

  std::string fail(const std::string& reason);
  std::string read_hello();
  std::string give_credential();
  std::string read_proof();

  const Secret& secret_;
  std::string_view credential_;
  Phase phase_ = Phase::kHello;
  HandshakeState state_ = HandshakeState::kPending;
  Hello hello_{};
  SessionKeys keys_{};
  std::string reason_{};
  std::string received_{};
  std::string transcript_{};
  std::string nonces_{};
};

class ClientHandshake {
 public:
  enum class Failure : std::uint8_t {
    kNone,
    kForeign,      // the server is another program
    kVersion,      // another version of the protocol: another build
    kWrongSecret,  // the server has another secret
    kImpostor,     // the server does not know the secret
  };

  ClientHandshake(const Secret& secret, const Hello& hello);

  // What to send first.
  const std::string& start() const { return hello_; }
  // The answer to send, maybe empty.
  std::string receive(std::string_view bytes);

  HandshakeState state() const { return state_; }
  Failure failure() const { return failure_; }
  int server_version() const { return server_version_; }
  const SessionKeys& keys() const { return keys_; }
  // The bytes that came after the handshake: the first frames.
  const std::string& rest() const { return received_; }

 private:
  std::string fail(Failure failure);
  std::string read_challenge();
  std::string read_result();

  const Secret& secret_;
  HandshakeState state_ = HandshakeState::kPending;
  Failure failure_ = Failure::kNone;
  bool proved_ = false;
  int server_version_ = 0;
  SessionKeys keys_{};
  std::string hello_{};
  std::string nonce_{};
  std::string received_{};
  std::string transcript_{};
};

}  // namespace phalanx::rendezvous
