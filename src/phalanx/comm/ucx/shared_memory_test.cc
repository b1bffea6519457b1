#include "phalanx/comm/ucx/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace phalanx::ucx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SharedMemory, WhatIsWrongWithItsFolderIsTold) {
  EXPECT_THAT(shared_memory_fault("/nowhere", 2),
              AllOf(HasSubstr("/nowhere"), HasSubstr("is not there"), HasSubstr("--nproc")));
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(shared_memory_fault(folder, 0), "");
  EXPECT_THAT(shared_memory_fault(folder, 1 << 30),
              AllOf(HasSubstr(folder + ", where ranks of one host share memory, is too small: "
                                       "1073741824 ranks take 4518305595392 KiB of it"),
                    HasSubstr("of which"), HasSubstr("size=9036611190784k " + folder),
                    HasSubstr("--shm-size")));
}

}  // namespace
}  // namespace phalanx::ucx
