#include "phalanx/base/input_path.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class InputPathTest : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return directory_.path() / name; }

 private:
  const TemporaryDirectory directory_{"input_path"};
};

TEST_F(InputPathTest, WhatIsNoFileIsNamed) {
  std::ofstream(path("file")) << "text";
  fs::create_symlink("file", path("link"));
  fs::create_symlink("nothing", path("dangling"));
  fs::create_symlink("circle", path("circle"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(input_fault(path("file")), "");
  EXPECT_EQ(input_fault(path("link")), "");
  EXPECT_EQ(input_fault(path("circle")), "") << "opening it says why";
  EXPECT_EQ(input_fault(path("dangling")), "no such file");
  EXPECT_EQ(input_fault(path("file/in")), "no such file");
  EXPECT_EQ(input_fault(path("")), "is a directory, not a regular file");
  EXPECT_EQ(input_fault(path("pipe")), "is a named pipe, not a regular file");
  EXPECT_EQ(input_fault("/dev/zero"), "is a device, not a regular file");
}

// Opening the pipe would wait for ever.
TEST_F(InputPathTest, APipeWithoutAWriterIsRefused) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of<InputMissingError>([&] { read_file(path("pipe")); }),
              HasSubstr("pipe: is a named pipe, not a regular file"));
  EXPECT_THAT(error_of<InputMissingError>([&] { read_file(path("")); }), HasSubstr("a directory"));
}

TEST_F(InputPathTest, WhatCannotBeLookedAtIsAnErrorThatNamesThePath) {
  fs::create_symlink("circle", path("circle"));
  EXPECT_TRUE(path_exists(path("")));
  EXPECT_FALSE(path_exists(path("nothing")));
  EXPECT_THAT(error_of<InputMissingError>([&] { path_exists(path("circle")); }),
              HasSubstr("circle: cannot be looked at: "));
  EXPECT_THAT(error_of<InputMissingError>([&] { path_exists(path(std::string(300, 'x'))); }),
              HasSubstr("cannot be looked at: File name too long"));
}

}  // namespace
}  // namespace phalanx
