#include "phalanx/rendezvous/port_holder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kLongestCommand = 80;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The inode of the listening socket in a table like /proc/net/tcp; empty if there is none.
std::string listening_inode(const std::filesystem::path& table, int port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  constexpr const char* kListening = "0A";
  std::ifstream file(table);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() > 9 && words[1].ends_with(wanted) && words[3] == kListening) return words[9];
  }
  return {};
}

std::string unix_inode(const std::filesystem::path& table, const std::string& name) {
  std::ifstream file(table);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() > 7 && words[7] == "@" + name) return words[6];
  }
  return {};
}

bool has_socket(const std::filesystem::path& process, const std::string& inode) {
  const std::string wanted = "socket:[" + inode + "]";
  std::error_code error;
  std::filesystem::directory_iterator entry(process / "fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry->path(), gone) == wanted) return true;
  }
  return false;
}

// The beginning of its command line, without control characters.
std::string command_of(const std::filesystem::path& process) {
  std::ifstream file(process / "cmdline");
  std::string command(std::istreambuf_iterator<char>(file), {});
  while (!command.empty() && command.back() == '\0') command.pop_back();
  if (command.size() > kLongestCommand) command = command.substr(0, kLongestCommand) + "...";
  for (char& letter : command) {
    if (std::isprint(static_cast<unsigned char>(letter)) == 0) letter = ' ';
  }
  return command;
}

}  // namespace

std::string port_holder(const Endpoint& endpoint, const std::filesystem::path& proc) {
  std::string inode;
  if (endpoint.kind == Endpoint::Kind::kUnix) {
    inode = unix_inode(proc / "net/unix", endpoint.name);
  } else {
    inode = listening_inode(proc / "net/tcp", endpoint.port);
    if (inode.empty()) inode = listening_inode(proc / "net/tcp6", endpoint.port);
  }
  if (inode.empty() || inode == "0") return {};
  std::error_code error;
  std::filesystem::directory_iterator entry(proc, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string pid = entry->path().filename();
    const bool is_process =
        std::all_of(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_process && has_socket(entry->path(), inode)) {
      return fmt::format("pid {} ({})", pid, command_of(entry->path()));
    }
  }
  return {};
}

}  // namespace phalanx::rendezvous
