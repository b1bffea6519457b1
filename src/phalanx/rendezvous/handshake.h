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
// and comes again. The client goes first: who does not know the secret gets nothing that is made
// with it. The keys of the session come from the secret and both nonces. Bytes in, bytes out: no
// socket, no clock.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/crypto.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx::rendezvous {

inline constexpr int kProtocolVersion = 2;
// What the server takes from a client that has proved nothing.
inline constexpr std::size_t kLongestUnproven = 256;

// Who says hello.
struct Hello {
  MemberRole role = MemberRole::kRank;
  int number = 0;  // rank, or node of a launcher
  int epoch = 0;
  std::string run_id{};  // a long one: its hash
};

// As it is said and compared: a long one becomes its hash.
std::string short_run_id(const std::string& run_id);

struct SessionKeys {
  Key of_client{};
  Key of_server{};
};

// kEnded: the client has the credential, or knows that there is none, and will come again.
enum class HandshakeState : std::uint8_t { kPending, kDone, kFailed, kEnded };

// What a client sends that asks for the credential, and the credential in what the server has
// answered so far: nothing until it is there as a whole; empty where there is none.
// UnavailableError where the answer is not one of this protocol.
std::string_view credential_request();
std::optional<std::string> credential_in(std::string_view answer);

class ServerHandshake {
 public:
  // `credential`: to be given to who asks; empty: to nobody.
  explicit ServerHandshake(const Secret& secret, std::string_view credential = {})
      : secret_(secret), credential_(credential) {}

  // What is to be sent in answer, maybe nothing; also when it has failed. Not to be called once it
  // is done or has failed.
  std::string receive(std::string_view bytes);

  HandshakeState state() const { return state_; }
  const Hello& hello() const { return hello_; }          // where it is done
  const SessionKeys& keys() const { return keys_; }      // where it is done
  const std::string& reason() const { return reason_; }  // why it failed, for the log

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
    kForeign,      // something else listens there
    kVersion,      // another version of the protocol: another build
    kWrongSecret,  // the server says that ours is not its
    kImpostor,     // the server does not know the secret
  };

  ClientHandshake(const Secret& secret, const Hello& hello);

  // What is to be sent first.
  const std::string& start() const { return hello_; }
  // What is to be sent in answer, maybe nothing.
  std::string receive(std::string_view bytes);

  HandshakeState state() const { return state_; }
  Failure failure() const { return failure_; }
  int server_version() const { return server_version_; }
  const SessionKeys& keys() const { return keys_; }
  // What came after the handshake's last byte: the first frames.
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
