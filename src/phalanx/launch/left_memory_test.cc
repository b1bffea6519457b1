#include "phalanx/launch/left_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <fstream>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/base/test_support.h"

namespace phalanx::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LeftMemory : public testing::Test {
 protected:
  std::filesystem::path make(const std::string& name) const {
    std::filesystem::path path = folder_.path() / name;
    std::ofstream(path) << "shared";
    return path;
  }
  std::vector<std::filesystem::path> remove() const {
    return remove_left_memory(folder_.path(), since_);
  }

  const TemporaryDirectory folder_;
  // File systems round.
  const std::filesystem::file_time_type since_ =
      std::filesystem::file_time_type::clock::now() - std::chrono::seconds(1);
};

TEST_F(LeftMemory, OfUcxIsRemoved) {
  const auto left = make("ucx_shm_posix_527bc6b1");
  EXPECT_THAT(remove(), ElementsAre(left));
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_THAT(remove(), IsEmpty());
}

TEST_F(LeftMemory, OfOthersIsKept) {
  make("something");
  make("my_ucx_shm_posix_1");
  std::filesystem::create_directory(folder_.path() / "ucx_shm_posix_1");
  std::filesystem::last_write_time(make("ucx_shm_posix_2"), since_ - std::chrono::seconds(1));
  EXPECT_THAT(remove(), IsEmpty());
}

TEST_F(LeftMemory, ThatAProcessHasOpenOrMappedIsKept) {
  const auto path = make("ucx_shm_posix_1");
  void* mapping = nullptr;
  {
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_THAT(remove(), IsEmpty());
    mapping = ::mmap(nullptr, 6, PROT_READ, MAP_SHARED, file.get(), 0);
    ASSERT_NE(mapping, MAP_FAILED);
  }
  EXPECT_THAT(remove(), IsEmpty());
  ::munmap(mapping, 6);
  EXPECT_THAT(remove(), ElementsAre(path));
}

TEST(LeftMemoryOfNoFolder, IsNone) { EXPECT_THAT(remove_left_memory("/nowhere", {}), IsEmpty()); }

}  // namespace
}  // namespace phalanx::launch
