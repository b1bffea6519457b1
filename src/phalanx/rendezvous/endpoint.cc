#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/launch_environment.h"

namespace phalanx {
namespace {

constexpr std::size_t kMaxUnixName = 107;  // of sockaddr_un, without the leading zero byte
constexpr std::size_t kMaxHostName = 253;  // of DNS
constexpr int kMaxPort = 65535;

// Printable ASCII only: nothing that controls a terminal or ends a line of the log.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

[[noreturn]] void refuse(const std::string& text) {
  throw UsageError("{}: not an endpoint: expected unix:NAME, tcp:HOST:PORT or tcp:[ADDRESS]:PORT",
                   is_plain(text) ? text.substr(0, 300) : "?");
}

Endpoint parse_tcp(const std::string& text, std::string_view rest) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) refuse(text);
  std::string_view host = rest.substr(0, colon);
  const std::string_view digits = rest.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) refuse(text);
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    refuse(text);
  }
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) refuse(text);
  if (port < 0 || port > kMaxPort) refuse(text);
  if (host.empty() || host.size() > kMaxHostName || !is_plain(host)) refuse(text);
  return {.kind = Endpoint::Kind::kTcp, .name = {}, .host = std::string(host), .port = port};
}

}  // namespace

std::string Endpoint::to_text() const {
  if (kind == Kind::kUnix) return "unix:" + name;
  if (host.find(':') != std::string::npos) return fmt::format("tcp:[{}]:{}", host, port);
  return fmt::format("tcp:{}:{}", host, port);
}

Endpoint Endpoint::parse(const std::string& text) {
  const std::string_view all = text;
  if (all.starts_with("tcp:")) return parse_tcp(text, all.substr(4));
  if (!all.starts_with("unix:")) refuse(text);
  const std::string_view name = all.substr(5);
  if (name.empty() || name.size() > kMaxUnixName || !is_plain(name)) refuse(text);
  return {.kind = Kind::kUnix, .name = std::string(name), .host = {}, .port = 0};
}

}  // namespace phalanx
