#include "phalanx/rendezvous/handshake.h"

#include <limits>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/wire.h"

namespace phalanx::rendezvous {
namespace {

constexpr std::string_view kMagic = "PHLXRDZV";
constexpr std::string_view kCredentialRequest = "PHLXMUNG";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kVersionEnd = 10;  // magic and version
constexpr std::size_t kRunIdAt = 20;     // with role, number, epoch and the run id's length
constexpr std::size_t kChallengeBytes = kVersionEnd + 1 + kNonceBytes;
constexpr std::size_t kResultBytes = 1 + kDigestBytes;
constexpr std::size_t kLongestRunId = 128;
static_assert(kRunIdAt + kLongestRunId + kNonceBytes + kDigestBytes <= kLongestUnproven);

constexpr char kGoOn = 0;
constexpr char kOtherVersion = 1;
constexpr char kOtherSecret = 2;

std::string fresh_nonce() {
  Digest nonce{};
  fill_randomly(nonce);
  return std::string(text_of(nonce));
}

std::string proof_of(const Secret& secret, std::string_view label, std::string_view transcript) {
  const Digest proof = hmac_sha256(secret.bytes(), std::string(label).append(transcript));
  return std::string(text_of(proof));
}
constexpr std::string_view kClientLabel = "phalanx client";
constexpr std::string_view kServerLabel = "phalanx server";

SessionKeys keys_of(const Secret& secret, const std::string& nonces) {
  return {derive_key(secret.bytes(), nonces, "phalanx frames of the client"),
          derive_key(secret.bytes(), nonces, "phalanx frames of the server")};
}

std::string encode(const Hello& hello) {
  const std::string run_id = short_run_id(hello.run_id);
  std::string text(kMagic);
  append_number(text, kProtocolVersion, 2);
  append_number(text, static_cast<std::uint64_t>(hello.role), 1);
  append_number(text, static_cast<std::uint32_t>(hello.number), 4);
  append_number(text, static_cast<std::uint32_t>(hello.epoch), 4);
  append_number(text, run_id.size(), 1);
  return text + run_id;
}

}  // namespace

std::string short_run_id(const std::string& run_id) {
  return run_id.size() <= kLongestRunId ? run_id : "sha256:" + sha256_digits(run_id);
}

std::string ServerHandshake::fail(const std::string& reason) {
  state_ = HandshakeState::kFailed;
  reason_ = reason;
  received_.clear();
  return {};
}

std::string ServerHandshake::receive(std::string_view bytes) {
  PHALANX_CHECK(state_ == HandshakeState::kPending, "the handshake is over");
  if (transcript_.size() + received_.size() + bytes.size() > kLongestUnproven + kChallengeBytes) {
    return fail("more bytes than a hello has");
  }
  received_.append(bytes);
  return phase_ == Phase::kHello ? read_hello() : read_proof();
}

std::string ServerHandshake::read_hello() {
  if (received_.size() > kLongestUnproven) return fail("more bytes than a hello has");
  if (received_ == kCredentialRequest) return give_credential();
  const std::string_view begin = std::string_view(received_).substr(0, kMagic.size());
  if (begin != kMagic.substr(0, received_.size()) &&
      begin != kCredentialRequest.substr(0, received_.size())) {
    return fail("not a hello of phalanx");
  }
  if (received_.size() < kVersionEnd) return {};
  const auto version = static_cast<int>(read_number(received_, kMagic.size(), 2));
  std::string challenge(kMagic);
  append_number(challenge, kProtocolVersion, 2);
  if (version != kProtocolVersion) {
    fail(fmt::format("version {} of the protocol instead of {}", version, kProtocolVersion));
    return challenge + kOtherVersion + std::string(kNonceBytes, '\0');
  }
  if (received_.size() < kRunIdAt) return {};
  const std::size_t run_id_bytes = read_number(received_, kRunIdAt - 1, 1);
  if (run_id_bytes > kLongestRunId) return fail("a run id that is too long");
  const std::size_t size = kRunIdAt + run_id_bytes + kNonceBytes;
  if (received_.size() < size) return {};
  // The client waits for the challenge before it sends more.
  if (received_.size() > size) return fail("more bytes than a hello has");

  const std::uint64_t role = read_number(received_, kVersionEnd, 1);
  const std::uint64_t number = read_number(received_, kVersionEnd + 1, 4);
  const std::uint64_t epoch = read_number(received_, kVersionEnd + 5, 4);
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (role > static_cast<std::uint64_t>(MemberRole::kLauncher) || number > kMost || epoch > kMost) {
    return fail("a role, number or epoch that there cannot be");
  }
  hello_ = {static_cast<MemberRole>(role), static_cast<int>(number), static_cast<int>(epoch),
            received_.substr(kRunIdAt, run_id_bytes)};

  const std::string nonce = fresh_nonce();
  challenge += kGoOn + nonce;
  nonces_ = received_.substr(size - kNonceBytes) + nonce;
  transcript_ = std::exchange(received_, {}) + challenge;
  phase_ = Phase::kProof;
  return challenge;
}

std::string ServerHandshake::give_credential() {
  state_ = HandshakeState::kEnded;
  std::string answer(kMagic);
  append_number(answer, kProtocolVersion, 2);
  append_number(answer, credential_.size(), 2);
  return answer.append(credential_);
}

std::string_view credential_request() { return kCredentialRequest; }

std::optional<std::string> credential_in(std::string_view answer) {
  if (answer.substr(0, kMagic.size()) != kMagic.substr(0, answer.size())) {
    throw UnavailableError("it is no rendezvous of phalanx");
  }
  constexpr std::size_t kBegin = kVersionEnd + 2;
  if (answer.size() < kBegin) return std::nullopt;
  const std::size_t size = read_number(answer, kVersionEnd, 2);
  if (answer.size() < kBegin + size) return std::nullopt;
  return std::string(answer.substr(kBegin, size));
}

std::string ServerHandshake::read_proof() {
  if (received_.size() < kDigestBytes) return {};
  if (received_.size() > kDigestBytes) return fail("more bytes than a proof has");
  if (!equal_secretly(received_, proof_of(secret_, kClientLabel, transcript_))) {
    fail("it does not know the run's secret");
    return kOtherSecret + std::string(kDigestBytes, '\0');
  }
  transcript_ += std::exchange(received_, {});
  keys_ = keys_of(secret_, nonces_);
  state_ = HandshakeState::kDone;
  return kGoOn + proof_of(secret_, kServerLabel, transcript_);
}

ClientHandshake::ClientHandshake(const Secret& secret, const Hello& hello)
    : secret_(secret), hello_(encode(hello)), nonce_(fresh_nonce()) {
  hello_ += nonce_;
  transcript_ = hello_;
}

std::string ClientHandshake::fail(Failure failure) {
  state_ = HandshakeState::kFailed;
  failure_ = failure;
  received_.clear();
  return {};
}

std::string ClientHandshake::receive(std::string_view bytes) {
  PHALANX_CHECK(state_ == HandshakeState::kPending, "the handshake is over");
  received_.append(bytes);
  return proved_ ? read_result() : read_challenge();
}

std::string ClientHandshake::read_challenge() {
  if (std::string_view(received_).substr(0, kMagic.size()) != kMagic.substr(0, received_.size())) {
    return fail(Failure::kForeign);
  }
  if (received_.size() < kChallengeBytes) return {};
  server_version_ = static_cast<int>(read_number(received_, kMagic.size(), 2));
  if (received_[kVersionEnd] != kGoOn || server_version_ != kProtocolVersion) {
    return fail(Failure::kVersion);
  }
  // The server waits for the proof before it sends more.
  if (received_.size() > kChallengeBytes) return fail(Failure::kForeign);
  keys_ = keys_of(secret_, nonce_ + received_.substr(kVersionEnd + 1));
  transcript_ += std::exchange(received_, {});
  std::string proof = proof_of(secret_, kClientLabel, transcript_);
  transcript_ += proof;
  proved_ = true;
  return proof;
}

std::string ClientHandshake::read_result() {
  if (received_.size() < kResultBytes) return {};
  if (received_[0] != kGoOn) return fail(Failure::kWrongSecret);
  if (!equal_secretly(std::string_view(received_).substr(1, kDigestBytes),
                      proof_of(secret_, kServerLabel, transcript_))) {
    return fail(Failure::kImpostor);
  }
  received_.erase(0, kResultBytes);
  state_ = HandshakeState::kDone;
  return {};
}

}  // namespace phalanx::rendezvous
