#include "phalanx/base/lfs_pointer.h"

#include <gmock/gmock.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\n"
    "size 2471645608\n";

std::string refusal_of(const std::filesystem::path& path, std::string_view text) {
  return error_of<InputMissingError>([&] { refuse_lfs_pointer(path, text); });
}

TEST(LfsPointer, DistinguishesPointersFromFiles) {
  EXPECT_TRUE(is_lfs_pointer(kPointer));
  EXPECT_FALSE(is_lfs_pointer(""));
  EXPECT_FALSE(is_lfs_pointer("version 1"));
  // A file that only starts like a pointer.
  EXPECT_FALSE(is_lfs_pointer(kPointer + std::string(1024, ' ')));
}

TEST(LfsPointer, TheMessageSaysWhatToDo) {
  EXPECT_THAT(refusal_of("llama/model.safetensors", kPointer),
              AllOf(HasSubstr("llama/model.safetensors: a Git LFS pointer"),
                    HasSubstr("of 2471645608 bytes"), HasSubstr("`git lfs pull` in llama")));
  EXPECT_THAT(refusal_of("model.safetensors", "version https://git-lfs.github.com/spec/v1\n"),
              AllOf(HasSubstr("in its folder"), Not(HasSubstr("bytes"))));
  EXPECT_EQ(refusal_of("model.safetensors", "{}"), "no error");
}

}  // namespace
}  // namespace phalanx
