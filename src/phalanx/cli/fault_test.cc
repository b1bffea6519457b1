#include "phalanx/cli/fault.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace phalanx {
namespace {

namespace fs = std::filesystem;

Fault fault_of(std::errc error) {
  try {
    throw fs::filesystem_error("status", "/some/path", std::make_error_code(error));
  } catch (const std::exception&) {
    return current_fault();
  }
}

// A path that the system does not resolve is no error of the program, wherever it is met.
TEST(Fault, OfTheFileSystemNamesThePath) {
  for (const std::errc error : {std::errc::filename_too_long, std::errc::permission_denied,
                                std::errc::too_many_symbolic_link_levels}) {
    EXPECT_EQ(fault_of(error).code, ErrorCode::kInputMissing);
  }
  EXPECT_EQ(fault_of(std::errc::io_error).code, ErrorCode::kIo);
  EXPECT_EQ(fault_of(std::errc::filename_too_long).message, "/some/path: File name too long");
}

}  // namespace
}  // namespace phalanx
