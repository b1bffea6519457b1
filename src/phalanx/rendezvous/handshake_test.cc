#include "phalanx/rendezvous/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/wire.h"

namespace phalanx::rendezvous {
namespace {

Secret secret_of(std::string_view text) {
  SecretBytes bytes(text.size());
  std::ranges::copy(std::as_bytes(std::span(text)), bytes.bytes().begin());
  return {std::move(bytes), "a test"};
}

const Secret kSecret = secret_of("0123456789abcdef");
const Hello kHello{MemberRole::kRank, 3, 2, "run"};

struct Outcome {
  HandshakeState server = HandshakeState::kPending;
  HandshakeState client = HandshakeState::kPending;
  ClientHandshake::Failure failure = ClientHandshake::Failure::kNone;
  std::string reason{};
  SessionKeys of_server{}, of_client{};
  Hello hello{};
};

Outcome shake(const Secret& of_server, const Secret& of_client, std::size_t piece = 1000) {
  ServerHandshake server(of_server);
  ClientHandshake client(of_client, kHello);
  std::string to_server = client.start();
  std::string to_client;
  while (!to_server.empty() || !to_client.empty()) {
    const std::string bytes = std::exchange(to_server, {});
    for (std::size_t at = 0; at < bytes.size() && server.state() == HandshakeState::kPending;
         at += piece) {
      to_client += server.receive(std::string_view(bytes).substr(at, piece));
    }
    const std::string answer = std::exchange(to_client, {});
    for (std::size_t at = 0; at < answer.size() && client.state() == HandshakeState::kPending;
         at += piece) {
      to_server += client.receive(std::string_view(answer).substr(at, piece));
    }
  }
  return {server.state(), client.state(), client.failure(), server.reason(),
          server.keys(),  client.keys(),  server.hello()};
}

TEST(Handshake, OfTwoThatKnowTheSecretGivesBothTheSameKeys) {
  for (const std::size_t piece : {1UL, 7UL, 1000UL}) {
    const Outcome outcome = shake(kSecret, kSecret, piece);
    EXPECT_EQ(outcome.server, HandshakeState::kDone);
    EXPECT_EQ(outcome.client, HandshakeState::kDone);
    EXPECT_EQ(outcome.of_server.of_client, outcome.of_client.of_client);
    EXPECT_EQ(outcome.of_server.of_server, outcome.of_client.of_server);
    EXPECT_NE(outcome.of_server.of_server, outcome.of_server.of_client);
    EXPECT_EQ(outcome.hello.number, 3);
    EXPECT_EQ(outcome.hello.epoch, 2);
    EXPECT_EQ(outcome.hello.run_id, "run");
  }
  EXPECT_NE(shake(kSecret, kSecret).of_server.of_client,
            shake(kSecret, kSecret).of_server.of_client);
}

TEST(Handshake, WithoutASecretWorks) { EXPECT_EQ(shake({}, {}).client, HandshakeState::kDone); }

TEST(Handshake, WithAnotherSecretFails) {
  for (const Secret& other :
       {secret_of("0123456789abcdeg"), secret_of("0123456789abcde"), Secret()}) {
    const Outcome outcome = shake(kSecret, other);
    EXPECT_EQ(outcome.server, HandshakeState::kFailed);
    EXPECT_EQ(outcome.reason, "it does not know the run's secret");
    EXPECT_EQ(outcome.failure, ClientHandshake::Failure::kWrongSecret);
  }
}

// A server that accepts the client without knowing the secret is found out.
TEST(Handshake, AnImpostorIsFoundOut) {
  ClientHandshake client(kSecret, kHello);
  ServerHandshake server(secret_of("another of sixteen"));
  const std::string proof = client.receive(server.receive(client.start()));
  EXPECT_EQ(proof.size(), kDigestBytes);
  client.receive(std::string(1 + kDigestBytes, '\0'));
  EXPECT_EQ(client.failure(), ClientHandshake::Failure::kImpostor);
}

TEST(Handshake, AClientKnowsWhatIsNoServer) {
  ClientHandshake client(kSecret, kHello);
  client.receive("HTTP/1.1 400 Bad Request\r\n");
  EXPECT_EQ(client.failure(), ClientHandshake::Failure::kForeign);
  ClientHandshake other(kSecret, kHello);
  std::string of_version_9 = "PHLXRDZV";
  append_number(of_version_9, 9, 2);
  other.receive(of_version_9 + std::string(33, '\0'));
  EXPECT_EQ(other.failure(), ClientHandshake::Failure::kVersion);
  EXPECT_EQ(other.server_version(), 9);
}

TEST(Handshake, AServerAnswersAnotherVersionWithItsOwn) {
  ClientHandshake client(kSecret, kHello);
  std::string hello = client.start();
  hello[8] = 9;
  ServerHandshake server(kSecret);
  client.receive(server.receive(hello));
  EXPECT_EQ(server.state(), HandshakeState::kFailed);
  EXPECT_EQ(client.failure(), ClientHandshake::Failure::kVersion);
  EXPECT_EQ(client.server_version(), kProtocolVersion);
}

TEST(Handshake, ALongRunIdIsItsHash) {
  const std::string longest(1000, 'r');
  EXPECT_LE(short_run_id(longest).size(), 128U);
  EXPECT_NE(short_run_id(longest), short_run_id(longest + "r"));
  EXPECT_EQ(short_run_id("run"), "run");
  const ClientHandshake client(kSecret, {MemberRole::kRank, 0, 0, longest});
  EXPECT_LE(client.start().size() + kDigestBytes, kLongestUnproven);
}

// The bytes of a client that knows the secret, and its proof for another server.
struct Recorded {
  std::string hello, proof;
};
Recorded record() {
  ServerHandshake server(kSecret);
  ClientHandshake client(kSecret, kHello);
  Recorded recorded{client.start(), {}};
  recorded.proof = client.receive(server.receive(recorded.hello));
  return recorded;
}

// Passes bytes to a server; whether it admitted the sender.
bool joins(std::string_view hello, std::string_view proof) {
  ServerHandshake server(kSecret);
  std::size_t answered = server.receive(hello).size();
  if (server.state() == HandshakeState::kPending && !proof.empty()) {
    answered += server.receive(proof).size();
  }
  EXPECT_LE(answered, 256U);
  return server.state() == HandshakeState::kDone;
}

TEST(Handshake, TenThousandForgedHellosLetNobodyIn) {
  const Recorded recorded = record();
  // NOLINTNEXTLINE(bugprone-random-generator-seed,cert-msc51-cpp): the same each time.
  std::mt19937 random(1);
  const auto byte = [&] { return static_cast<char>(random()); };
  const auto any = [&](std::size_t most) {
    std::string bytes(random() % (most + 1), '\0');
    for (char& each : bytes) each = byte();
    return bytes;
  };
  const auto flip = [&](std::string bytes) {
    const std::size_t bit = random() % (8 * bytes.size());
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    return bytes;
  };
  int joined = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string hello = recorded.hello;
    std::string proof = recorded.proof;
    switch (round % 8) {
      case 0:  // replayed, whole
        break;
      case 1:
        hello = any(400);
        break;
      case 2:
        hello = hello.substr(0, random() % hello.size());
        break;
      case 3:
        hello += any(300);
        break;
      case 4:
        hello = flip(hello);
        break;
      case 5:
        proof = flip(proof);
        break;
      case 6:
        proof = proof.substr(0, random() % proof.size());
        break;
      default:
        proof = any(64);
        hello = hello.substr(0, 20) + any(235);
        break;
    }
    joined += joins(hello, proof) ? 1 : 0;
  }
  EXPECT_EQ(joined, 0);
}

// A bit is flipped on its way from a client that knows the secret.
TEST(Handshake, NoFlippedBitIsTaken) {
  const std::size_t bits = 8 * (record().hello.size() + kDigestBytes);
  for (std::size_t bit = 0; bit < bits; ++bit) {
    ServerHandshake server(kSecret);
    ClientHandshake client(kSecret, kHello);
    const auto flipped = [&](std::string bytes, std::size_t at) {
      if (at < 8 * bytes.size()) {
        bytes[at / 8] = static_cast<char>(bytes[at / 8] ^ (1 << (at % 8)));
      }
      return bytes;
    };
    const std::size_t hello_bits = 8 * client.start().size();
    const std::string challenge = server.receive(flipped(client.start(), bit));
    if (server.state() != HandshakeState::kPending || challenge.empty()) continue;
    const std::string proof = client.receive(challenge);
    if (proof.empty()) continue;
    server.receive(bit < hello_bits ? proof : flipped(proof, bit - hello_bits));
    EXPECT_EQ(server.state(), HandshakeState::kFailed) << bit;
  }
}

}  // namespace
}  // namespace phalanx::rendezvous
