#include "machine.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace phalanx::processes {
namespace {

using namespace std::chrono_literals;

bool& own_machine() {
  static bool is = false;
  return is;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Texts that end with a zero byte each.
std::vector<std::string> texts_of(const std::string& path) {
  std::vector<std::string> texts;
  std::istringstream stream(text_of(path));
  for (std::string text; std::getline(stream, text, '\0');) texts.push_back(text);
  return texts;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// /proc/PID/environ is that of the program's start: a child between fork and exec has its
// parent's, which says of a rank that it is the launcher; its command line tells.
std::optional<FoundProcess> process_of(pid_t pid, const std::string& mark) {
  const std::string directory = fmt::format("/proc/{}/", pid);
  FoundProcess found{.pid = pid, .rank = -1};
  bool is_ours = false;
  for (const std::string& variable : texts_of(directory + "environ")) {
    is_ours = is_ours || variable == mark;
    for (const std::string_view name : {"RANK=", "SLURM_PROCID="}) {
      if (variable.starts_with(name)) {
        found.rank = number(std::string_view(variable).substr(name.size())).value_or(-1);
      }
    }
  }
  if (!is_ours) return std::nullopt;
  const std::vector<std::string> words = texts_of(directory + "cmdline");
  found.is_launcher = words.size() > 1 && words[1] == "launch";
  for (const std::string& word : words) found.command += word + " ";
  return found;
}

std::string files_in_shared_memory() {
  std::string lines;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    lines += "shared memory: " + entry.path().string() + "\n";
  }
  return lines;
}

std::string unix_sockets() {
  std::string lines;
  std::istringstream table(text_of("/proc/self/net/unix"));
  std::string line;
  std::getline(table, line);  // the heading
  while (std::getline(table, line)) {
    if (line.find('@') != std::string::npos || line.find("phalanx") != std::string::npos) {
      lines += "Unix socket: " + line + "\n";
    }
  }
  return lines;
}

std::string left_now(const std::string& run) {
  std::string lines;
  for (const FoundProcess& process : processes_of(run)) {
    lines += fmt::format("process {}: {}\n", process.pid, process.command);
  }
  if (!has_own_machine()) return lines;
  return lines + listening_tcp_sockets() + unix_sockets() + files_in_shared_memory();
}

}  // namespace

void make_own_machine() {
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) return;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  if (::mount("none", "/dev/shm", "tmpfs", 0, nullptr) != 0) return;
  own_machine() = std::system("ip link set lo up 2>/dev/null") == 0;
}

bool has_own_machine() { return own_machine(); }

std::vector<FoundProcess> processes_of(const std::string& run) {
  std::vector<FoundProcess> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = number(entry.path().filename().string());
    if (!pid) continue;
    if (const auto process = process_of(*pid, "PHALANX_TEST_RUN=" + run)) all.push_back(*process);
  }
  return all;
}

pid_t pid_of_rank(const std::string& run, int rank) {
  for (const FoundProcess& process : processes_of(run)) {
    if (process.rank == rank && !process.is_launcher) return process.pid;
  }
  return 0;
}

std::string what_is_left(const std::string& run, std::chrono::milliseconds patience) {
  std::string left;
  eventually(patience, [&] {
    left = left_now(run);
    return left.empty();
  });
  return left;
}

std::string listening_tcp_sockets(pid_t process) {
  const std::string directory =
      process == 0 ? "/proc/self/net/" : fmt::format("/proc/{}/net/", process);
  std::string lines;
  for (const char* family : {"tcp", "tcp6"}) {
    std::istringstream table(text_of(directory + family));
    std::string line;
    std::getline(table, line);  // the heading
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string index, local, remote, state;
      words >> index >> local >> remote >> state;
      if (state == "0A") lines += fmt::format("{} listens on {}\n", family, local);
    }
  }
  return lines;
}

void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

Hosts::Hosts(int count)
    : directory_(std::filesystem::temp_directory_path() /
                 fmt::format("phalanx_hosts_{}", ::getpid())) {
  std::filesystem::create_directories(directory_);
  shell("ip link add switch type bridge && ip link set switch up");
  for (int host = 0; host < count; ++host) {
    holders_.push_back(std::make_unique<ChildProcess>(
        ChildOptions{.words = {"unshare", "--net", "--mount", "sh", "-c",
                               // What is asked for interfaces there is this namespace's.
                               "mount -t sysfs none /sys && exec sleep 1000000"},
                     .directory = directory_,
                     .name = fmt::format("host_{}", host)}));
    const auto is_ready = [&] {
      return text_of(fmt::format("/proc/{}/comm", process(host))) == "sleep\n";
    };
    if (!eventually(10s, is_ready)) throw std::runtime_error("unshare --net --mount does not work");
    shell(
        fmt::format("ip link add port{0} type veth peer name eth0 netns {1} && "
                    "ip link set port{0} master switch up",
                    host, process(host)));
    // Addresses are usable at once: nobody else can have them.
    on(host, "ip link set lo up");
    on(host, fmt::format("ip address add {}/24 dev eth0", address(host)));
    on(host, fmt::format("ip address add {}/64 dev eth0 nodad", address6(host)));
    on(host, "ip link set eth0 up");
  }
  for (int host = 0; host < count; ++host) wait_for_link(host);
}

Hosts::~Hosts() {
  // Namespaces go some time after their last process, and with them their ends of the cables.
  for (std::size_t host = 0; host < holders_.size(); ++host) {
    [[maybe_unused]] const int status =
        std::system(fmt::format("ip link delete port{}", host).c_str());
  }
  holders_.clear();
  std::filesystem::remove_all(directory_);
  [[maybe_unused]] const int status = std::system("ip link delete switch");
}

void Hosts::on(int host, const std::string& command) const {
  shell(fmt::format("nsenter --net --target {} {}", process(host), command));
}

// A link is up a moment after it was told so.
void Hosts::wait_for_link(int host) const {
  const auto is_up = [&] {
    return std::system(fmt::format("nsenter --net --target {} ip -brief link show eth0 | "
                                   "grep -q ' UP '",
                                   process(host))
                           .c_str()) == 0;
  };
  if (!eventually(10s, is_up)) throw std::runtime_error("a link does not come up");
}

void Hosts::link_down(int host) const { on(host, "ip link set eth0 down"); }

void Hosts::link_up(int host) const {
  on(host, "ip link set eth0 up");
  // Taken away with the link.
  on(host, fmt::format("ip address replace {}/64 dev eth0 nodad", address6(host)));
}

void Hosts::swallow(int host) const { shell(fmt::format("ip link set port{} nomaster", host)); }

void Hosts::let_through(int host) const {
  shell(fmt::format("ip link set port{} master switch", host));
}

void Hosts::lose_one_direction(int from, int to) const {
  on(from, fmt::format("ip route add blackhole {}/32", address(to)));
}

void Hosts::slow_down(int host, const std::string& rate) const {
  on(host, fmt::format("tc qdisc add dev eth0 root tbf rate {} burst 32k latency 100ms", rate));
}

bool Hosts::reset(int host, const std::string& which) const {
  // It lists those that it has ended.
  return std::system(fmt::format("nsenter --net --target {} ss -H -t -K state established '( {} )' "
                                 "2>/dev/null | grep -q .",
                                 process(host), which)
                         .c_str()) == 0;
}

bool Hosts::reset_control(int host, int port) const {
  return reset(host, fmt::format("sport = :{0} or dport = :{0}", port));
}

bool Hosts::reset_payload(int host, int port) const {
  return reset(host, fmt::format("sport != :{0} and dport != :{0}", port));
}

}  // namespace phalanx::processes
