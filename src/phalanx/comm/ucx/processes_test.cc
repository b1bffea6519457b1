// Ranks that are processes: this program, started again for each of them.

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/comm/transport_test_support.h"
#include "phalanx/comm/ucx/ucx_world.h"

namespace phalanx::ucx {
namespace {

using testing::HasSubstr;
using transports::places_of;
using transports::Rank;
using transports::read_values;

// Exchanges texts on a socket between a rank and the test.
void put(int socket, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string frame(reinterpret_cast<const char*>(&size), sizeof size);
  frame += text;
  if (send(socket, frame.data(), frame.size(), MSG_NOSIGNAL) != std::ssize(frame)) {
    throw IoError("a socket of the test: {}", std::strerror(errno));
  }
}
// Empty if the other end is gone.
std::string get(int socket) {
  std::uint32_t size = 0;
  if (recv(socket, &size, sizeof size, MSG_WAITALL) != sizeof size) return {};
  std::string text(size, '\0');
  if (size > 0 && recv(socket, text.data(), size, MSG_WAITALL) != std::ssize(text)) return {};
  return text;
}

// The ranks' mailbox: a folder with a file for each text.
class FileMailbox final : public Mailbox {
 public:
  FileMailbox(std::filesystem::path folder, const RankWatch& watch)
      : folder_(std::move(folder)), watch_(watch) {}

  void post(const std::string& name, std::string text) override {
    const auto path = path_of(name);
    std::ofstream(path.string() + ".new") << text;
    std::filesystem::rename(path.string() + ".new", path);
  }
  std::string read(const std::string& name) override {
    while (!std::filesystem::exists(path_of(name))) {
      if (const auto failure = watch_.failure()) throw Error(failure->code, failure->reason);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ostringstream text;
    text << std::ifstream(path_of(name)).rdbuf();
    return text.str();
  }
  std::optional<std::string> read_unless(const std::stop_token& /*stop*/,
                                         const std::string& name) override {
    return read(name);
  }
  std::optional<std::string> take(const std::string& /*name*/) override { return std::nullopt; }

 private:
  std::filesystem::path path_of(std::string name) const {
    std::ranges::replace(name, '/', '-');
    return folder_ / name;
  }

  std::filesystem::path folder_;
  const RankWatch& watch_;
};

int number_of(const char* name) { return std::atoi(std::getenv(name)); }

// As on a host where ptrace_scope forbids reading other processes' memory.
void refuse_reading_of_memory() {
  std::array<sock_filter, 4> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

constexpr std::int64_t kLong = 1 << 20;

// A rank's program; it sends "ready" once, and at last how it ended.
void run_rank(Rank& rank, const std::string& program, int socket) {
  const Tensor sum = rank.tensor(DType::kF32, std::vector<double>(kLong, rank.rank() + 1));
  const auto add = [&] {
    rank.world.all_reduce(rank.context, sum, Reduction::kSum).wait(rank.context.queue);
  };
  add();
  const int size = rank.world.size();
  EXPECT_EQ(read_values(sum), std::vector<double>(kLong, size * (size + 1) / 2));
  put(socket, "ready");
  if (program == "leave") {
    get(socket);
    return;
  }
  for (;;) add();
}

// Not a test itself: the process of a rank, if the test has set the variables.
TEST(UcxRank, DISABLED_Run) {
  const int socket = number_of("TEST_SOCKET"), index = number_of("TEST_RANK");
  const int size = number_of("TEST_SIZE");
  const std::string program = std::getenv("TEST_PROGRAM");
  if (program == "leave" && std::getenv("TEST_REFUSED") != nullptr) refuse_reading_of_memory();
  if (const char* const limit = std::getenv("TEST_DESCRIPTORS")) {
    const rlimit both{std::strtoul(limit, nullptr, 10), std::strtoul(limit, nullptr, 10)};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &both), 0);
  }
  // The test's reports about other ranks' ends.
  transports::SharedWatch watch(size);
  std::jthread listener;
  FileMailbox mailbox(std::getenv("TEST_MAILBOX"), watch.end(index));
  std::string end = "done";
  try {
    const auto world = make_ucx_world(index, places_of(size, number_of("TEST_HOSTS")),
                                      {.network_device = "lo"}, watch.end(index), mailbox);
    if (program == "fail") {
      listener = std::jthread([&, duplicate = dup(socket)] {
        const std::string culprit = get(duplicate);
        if (culprit.empty()) return;
        watch.fail(std::stoi(culprit), ErrorCode::kTemporary, "it is gone");
      });
    }
    Rank rank(*world, 1 << 24);
    run_rank(rank, program, socket);
  } catch (const std::exception& error) {
    end = error.what();
  }
  put(socket, end);
  if (listener.joinable()) shutdown(socket, SHUT_RD);
}

// The processes of a world; those that still run are killed at its end.
class Processes {
 public:
  // `more`: another variable of the processes.
  Processes(int size, int hosts, const std::string& program, const std::string& more = "NONE=1") {
    for (int rank = 0; rank < size; ++rank) start(rank, size, hosts, program, more);
  }
  ~Processes() {
    for (const int socket : sockets_) close(socket);
    for (const pid_t pid : pids_) {
      if (pid > 0) end(pid);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  std::size_t size() const { return pids_.size(); }
  pid_t pid(std::size_t rank) const { return pids_[rank]; }
  void say(std::size_t rank, const std::string& text) const { put(sockets_[rank], text); }
  // The next text of a rank, of all ranks.
  std::string hear(std::size_t rank) { return get(sockets_[rank]); }
  std::vector<std::string> hear_all() {
    std::vector<std::string> words;
    for (const int socket : sockets_) words.push_back(get(socket));
    return words;
  }
  void kill_rank(std::size_t rank) {
    kill(pids_[rank], SIGKILL);
    waitpid(pids_[rank], nullptr, 0);
    pids_[rank] = 0;
  }

 private:
  void start(int rank, int size, int hosts, const std::string& program, const std::string& more) {
    std::array<int, 2> pair{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    const std::vector<std::string> variables = {
        fmt::format("TEST_SOCKET={}", pair[1]),    fmt::format("TEST_RANK={}", rank),
        fmt::format("TEST_SIZE={}", size),         fmt::format("TEST_HOSTS={}", hosts),
        fmt::format("TEST_PROGRAM={}", program),   more,
        "TEST_MAILBOX=" + mailbox_.path().string()};
    std::vector<char*> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment.push_back(*variable);
    }
    for (const auto& variable : variables)
      environment.push_back(const_cast<char*>(variable.c_str()));
    environment.push_back(nullptr);
    std::array<const char*, 5> arguments = {"/proc/self/exe", "--gtest_filter=UcxRank.DISABLED_Run",
                                            "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                                            nullptr};
    const pid_t pid = fork();
    if (pid == 0) {
      fcntl(pair[1], F_SETFD, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execve("/proc/self/exe", const_cast<char**>(arguments.data()), environment.data());
      _exit(127);
    }
    close(pair[1]);
    pids_.push_back(pid);
    sockets_.push_back(pair[0]);
  }
  static void end(pid_t pid) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < deadline) {
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) == pid) {
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ADD_FAILURE() << "a rank does not end";
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  TemporaryDirectory mailbox_;
  std::vector<pid_t> pids_;
  std::vector<int> sockets_;
};

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with("ucx")) names.insert(entry.path().string());
  }
  return names;
}

// Files that were not there before and stay: other tests may have files for a moment, too.
std::set<std::string> files_left(const std::set<std::string>& before) {
  std::set<std::string> left = shared_memory_files();
  for (int i = 0; i < 50 && !left.empty(); ++i) {
    const std::set<std::string> now = shared_memory_files();
    std::erase_if(left, [&](const std::string& name) {
      return before.contains(name) || !now.contains(name);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return left;
}

// The TCP and UDP sockets (IPv4 and IPv6) of a process.
std::vector<std::string> network_sockets(pid_t pid) {
  std::set<std::string> inodes;
  for (const char* table : {"tcp", "tcp6", "udp", "udp6"}) {
    std::ifstream lines(fmt::format("/proc/{}/net/{}", pid, table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string word;
      for (int i = 0; i < 10; ++i) words >> word;
      inodes.insert("socket:[" + word + "]");
    }
  }
  std::vector<std::string> held;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error).string();
    if (inodes.contains(target)) held.push_back(target);
  }
  return held;
}

void let_go(const Processes& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks.say(rank, "go");
}

TEST(ProcessesTest, OnOneHostNoPortIsOpenAndNoFileIsThere) {
  const auto before = shared_memory_files();
  {
    Processes ranks(3, 1, "leave");
    EXPECT_THAT(ranks.hear_all(), testing::Each("ready"));
    // Sockets of this process, which earlier tests may have left, are inherited.
    const auto inherited = network_sockets(::getpid());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      auto own = network_sockets(ranks.pid(rank));
      std::erase_if(own,
                    [&](const auto& socket) { return std::ranges::count(inherited, socket) > 0; });
      EXPECT_THAT(own, testing::IsEmpty());
    }
    let_go(ranks);
    EXPECT_THAT(ranks.hear_all(), testing::Each("done"));
  }
  EXPECT_THAT(files_left(before), testing::IsEmpty());
}

// Two ranks on each of two hosts.
TEST(ProcessesTest, BothWaysAtTheSameTime) {
  Processes ranks(4, 2, "leave");
  EXPECT_THAT(ranks.hear_all(), testing::Each("ready"));
  EXPECT_THAT(network_sockets(ranks.pid(0)), testing::Not(testing::IsEmpty()));
  let_go(ranks);
  EXPECT_THAT(ranks.hear_all(), testing::Each("done"));
}

TEST(ProcessesTest, MemoryThatMayNotBeReadIsCopiedTwice) {
  Processes ranks(2, 1, "leave", "TEST_REFUSED=1");
  EXPECT_THAT(ranks.hear_all(), testing::Each("ready"));
  let_go(ranks);
  EXPECT_THAT(ranks.hear_all(), testing::Each("done"));
}

TEST(ProcessesTest, TooFewDescriptorsForTheNetworkAreNamed) {
  Processes ranks(2, 2, "leave", "TEST_DESCRIPTORS=30");
  EXPECT_THAT(ranks.hear_all(),
              testing::Each(testing::AllOf(HasSubstr("connects to up to 1 ranks of other hosts"),
                                           HasSubstr("needs 25 more file descriptors"),
                                           HasSubstr("this process may have 30"))));
}

class DeathTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Hosts, DeathTest, testing::Values(1, 3));

// A rank is killed in the middle of large sums; the watch tells the others.
TEST_P(DeathTest, ARankThatIsKilledEndsTheOthersAndLeavesNothing) {
  const auto before = shared_memory_files();
  for (int round = 0; round < 3; ++round) {
    Processes ranks(3, GetParam(), "fail");
    EXPECT_THAT(ranks.hear_all(), testing::Each("ready"));
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
    ranks.kill_rank(1);
    for (const std::size_t other : {0, 2}) ranks.say(other, "1");
    for (const std::size_t other : {0, 2}) {
      EXPECT_EQ(ranks.hear(other), "rank 1 failed: it is gone");
    }
  }
  EXPECT_THAT(files_left(before), testing::IsEmpty());
}

// Without the watch: the others see the broken connection themselves, a little later.
TEST(ProcessesTest, AConnectionThatBreaksEndsAWait) {
  Processes ranks(2, 2, "run");
  EXPECT_THAT(ranks.hear_all(), testing::Each("ready"));
  ranks.kill_rank(1);
  EXPECT_THAT(ranks.hear(0), HasSubstr("the connection to rank 1 broke: "));
}

// All are killed at once: no rank is left to clean up.
TEST(ProcessesTest, RanksThatAreAllKilledLeaveNothing) {
  const auto before = shared_memory_files();
  {
    Processes ranks(3, 1, "run");
    EXPECT_THAT(ranks.hear_all(), testing::Each("ready"));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks.kill_rank(rank);
  }
  EXPECT_THAT(files_left(before), testing::IsEmpty());
}

}  // namespace
}  // namespace phalanx::ucx
