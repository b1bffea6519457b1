#include "phalanx/rendezvous/munge.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/crypto.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestOutput = 16384;
// Ranks may come late; MUNGE's own limit is an hour.
constexpr const char* kLifeSeconds = "3600";
// Exit statuses of unmunge for a valid credential that is too old, or was decoded before.
constexpr int kExpired = 15;
constexpr int kReplayed = 17;

struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw SystemError("no pipe to munge: {}", std::strerror(errno));
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(0);
    close(1);
  }
  void close(std::size_t end) {
    if (ends[end] >= 0) ::close(std::exchange(ends[end], -1));
  }
};

struct Outcome {
  int exit_status = -1;  // -1: it did not end by itself
  SecretBytes output{};

  std::string_view text() const { return text_of(output.bytes()); }
};

SecretBytes read_until(int descriptor, Clock::time_point until) {
  SecretBytes output(kLongestOutput);
  std::size_t total = 0;
  while (total < kLongestOutput) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd entry{descriptor, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const std::span<std::byte> rest = output.bytes().subspan(total);
    const ssize_t size = ::read(descriptor, rest.data(), rest.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    total += static_cast<std::size_t>(size);
  }
  output.shrink(total);
  return output;
}

// The input must fit in a pipe's buffer.
Outcome run(const std::vector<std::string>& command, std::string_view input) {
  Pipe to_child;
  Pipe from_child;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to_child.ends[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, from_child.ends[1], 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw SystemError("{} cannot be started: {}", command[0], std::strerror(error));
  to_child.close(0);
  from_child.close(1);
  // If the child is gone, writing raises SIGPIPE, which this process may not ignore. A child that
  // reads nothing is noticed by its answer.
  sigset_t broken_pipe;
  sigset_t before;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const ssize_t written = ::write(to_child.ends[1], input.data(), input.size());
  const timespec at_once{};
  if (written < 0 && errno == EPIPE) ::sigtimedwait(&broken_pipe, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  to_child.close(1);
  Outcome outcome;
  const Clock::time_point until = Clock::now() + kMungeTimeout;
  outcome.output = read_until(from_child.ends[0], until);
  if (Clock::now() >= until || outcome.output.size() >= kLongestOutput) ::kill(pid, SIGKILL);
  from_child.close(0);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status)) outcome.exit_status = WEXITSTATUS(status);
  return outcome;
}

bool is_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, end)) + "/" + program;
    if (end > 0 && ::access(file.c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// The number in "UID:  name (1000)" of unmunge's table; -1 if there is none.
std::int64_t uid_in(std::string_view table) {
  constexpr std::string_view kKey = "\nUID:";
  const std::size_t key = table.find(kKey);
  if (key == std::string_view::npos) return -1;
  std::string_view line = table.substr(key + kKey.size());
  line = line.substr(0, line.find('\n'));
  const std::size_t open = line.rfind('(');
  if (open == std::string_view::npos) return -1;
  line.remove_prefix(open + 1);
  std::int64_t uid = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), uid);
  return error == std::errc() && end != line.data() + line.size() && *end == ')' ? uid : -1;
}

// Empty if they are not hexadecimal digits.
SecretBytes bytes_of_digits(std::string_view digits) {
  SecretBytes bytes(digits.size() / 2);
  for (std::size_t at = 0; at + 2 <= digits.size(); at += 2) {
    unsigned value = 0;
    const char* const begin = digits.data() + at;
    if (std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) return {};
    bytes.bytes()[at / 2] = static_cast<std::byte>(value);
  }
  return bytes;
}

SecretBytes digits_of(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  SecretBytes digits(2 * bytes.size());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const auto value = static_cast<unsigned>(bytes[at]);
    digits.bytes()[2 * at] = static_cast<std::byte>(kDigits[value / 16]);
    digits.bytes()[2 * at + 1] = static_cast<std::byte>(kDigits[value % 16]);
  }
  return digits;
}

}  // namespace

bool has_munge() { return is_on_path("munge") && is_on_path("unmunge"); }

std::string make_munge_credential(const Secret& secret) {
  const SecretBytes digits = digits_of(secret.bytes());
  const Outcome outcome = run({"munge", "-u", std::to_string(::geteuid()), "-t", kLifeSeconds},
                              text_of(digits.bytes()));
  if (outcome.exit_status != 0 || outcome.text().empty() ||
      outcome.text().size() > kLongestCredential) {
    throw SystemError(
        "munge gives no credential (status {}): does munged run on this host? Otherwise give "
        "--rdzv-secret-file",
        outcome.exit_status);
  }
  return std::string(outcome.text());
}

Secret read_munge_credential(const std::string& credential) {
  const Outcome outcome = run({"unmunge"}, credential);
  const int status = outcome.exit_status;
  const std::size_t end = outcome.text().find("\n\n");
  if ((status != 0 && status != kExpired && status != kReplayed) || end == std::string::npos) {
    throw PermissionError(
        "unmunge does not take the coordinator's credential (status {}): does munged run on this "
        "host, with the same key? Otherwise give --rdzv-secret-file",
        status);
  }
  const std::int64_t uid = uid_in("\n" + std::string(outcome.text().substr(0, end)));
  if (uid != ::geteuid()) {
    throw PermissionError("the coordinator's credential is of user {}, this process of user {}",
                          uid, ::geteuid());
  }
  Secret secret(bytes_of_digits(outcome.text().substr(end + 2)), "MUNGE");
  if (secret.bytes().size() < 16) {
    throw PermissionError("the coordinator's credential holds no secret of a run");
  }
  return secret;
}

}  // namespace phalanx::rendezvous
