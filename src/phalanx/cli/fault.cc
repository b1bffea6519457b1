#include "phalanx/cli/fault.h"

#include <fmt/core.h>

#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "phalanx/base/memory_limits.h"
#include "phalanx/base/threads.h"
#include "phalanx/comm/comm_error.h"

namespace phalanx {
namespace {

// A path that cannot be looked at is no error of the program.
ErrorCode code_of(const std::filesystem::filesystem_error& error) {
  for (const std::errc wrong :
       {std::errc::no_such_file_or_directory, std::errc::not_a_directory,
        std::errc::filename_too_long, std::errc::too_many_symbolic_link_levels,
        std::errc::permission_denied}) {
    if (error.code() == wrong) return ErrorCode::kInputMissing;
  }
  return ErrorCode::kIo;
}

}  // namespace

Fault current_fault() {
  try {
    throw;
  } catch (const CommError& error) {
    return {error.what(), error.code(), error.place().rank};
  } catch (const Error& error) {
    return {error.what(), error.code()};
  } catch (const std::bad_alloc&) {
    return {out_of_memory(), ErrorCode::kSystem};
  } catch (const std::filesystem::filesystem_error& error) {
    return {fmt::format("{}: {}", error.path1().string(), error.code().message()), code_of(error)};
  } catch (const std::system_error& error) {
    // Starting threads may fail in many places.
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return {
          fmt::format("the system refused a thread (ulimit -u; for its stack -v): {}. Limits: {}",
                      error.code().message(), thread_limits()),
          ErrorCode::kSystem};
    }
    return {fmt::format("internal error: {}", error.what())};
  } catch (const std::exception& error) {
    return {fmt::format("internal error: {}", error.what())};
  }
}

}  // namespace phalanx
