#include "phalanx/cli/standard_output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

class StandardOutputError final : public Error {
 public:
  explicit StandardOutputError(const std::error_code& reason)
      : Error(ErrorCode::kCannotCreate,
              fmt::format("standard output: cannot be written: {}", reason.message())),
        has_reader_(reason != std::errc::broken_pipe) {}
  bool has_reader() const { return has_reader_; }

 private:
  bool has_reader_;
};

StandardOutputError error_of_last_call() {
  return StandardOutputError(std::error_code(errno, std::generic_category()));
}

int status_of(const StandardOutputError& error) {
  constexpr int kSignalled = 128;
  if (error.has_reader()) throw error;
  return kSignalled + SIGPIPE;
}

}  // namespace

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void write_standard_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw error_of_last_call();
  flush_standard_output();
}

void flush_standard_output() {
  if (std::fflush(stdout) != 0) throw error_of_last_call();
}

int with_checked_output(const std::function<int()>& command) {
  try {
    const int status = command();
    flush_standard_output();
    return status;
  } catch (const StandardOutputError& error) {
    return status_of(error);
  } catch (const std::system_error& error) {
    // fmt::print() throws these, and others do.
    if (std::ferror(stdout) == 0) throw;
    return status_of(StandardOutputError(error.code()));
  }
}

}  // namespace phalanx
