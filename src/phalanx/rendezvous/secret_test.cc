#include "phalanx/rendezvous/secret.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

bool same(const Secret& one, const Secret& other) {
  return std::ranges::equal(one.bytes(), other.bytes());
}

class SecretFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_, std::ios::binary) << text;
    ::chmod(path_.c_str(), mode);
    return path_;
  }
  // The code and text of the error that reading it ends with.
  static std::pair<int, std::string> refusal(const std::filesystem::path& path) {
    try {
      read_secret_file(path, "--rdzv-secret-file");
    } catch (const Error& error) {
      return {error.exit_status(), error.what()};
    }
    return {0, ""};
  }

  const TemporaryDirectory temporary_{"secret"};
  const std::filesystem::path directory_ = temporary_.path();
  const std::filesystem::path path_ = directory_ / "key";
};

TEST_F(SecretFile, IsRead) {
  const Secret secret = read_secret_file(write("0123456789abcdef\n"), "--rdzv-secret-file");
  EXPECT_EQ(secret.bytes().size(), 16U);
  EXPECT_EQ(secret.source(), "--rdzv-secret-file " + path_.string());
}

TEST_F(SecretFile, ThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0666U, 0610U}) {
    const auto [code, text] = refusal(write("0123456789abcdef", mode));
    EXPECT_EQ(code, 77) << mode;
    EXPECT_NE(text.find("chmod 600 " + path_.string()), std::string::npos) << text;
  }
}

TEST_F(SecretFile, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write("0123456789abcdef");
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  const auto [code, text] = refusal(path_);
  EXPECT_EQ(code, 77);
  EXPECT_NE(text.find("belongs to user 65534"), std::string::npos) << text;
}

TEST_F(SecretFile, ThatIsNoneIsRefused) {
  EXPECT_EQ(refusal(directory_ / "none").first, 66);
  EXPECT_EQ(refusal(write("too short")).first, 65);
  EXPECT_EQ(refusal(write(std::string(5000, 'x'))).first, 65);
  EXPECT_EQ(refusal(directory_).first, 77);
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(directory_ / "pipe").first, 77);
}

TEST(Secret, IsNewEachTime) {
  const Secret one = make_secret();
  EXPECT_EQ(one.bytes().size(), 32U);
  EXPECT_FALSE(same(one, make_secret()));
}

TEST(Secret, ComesToChildrenByADescriptor) {
  const Secret secret = make_secret();
  const int descriptor = share_secret(secret);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  // Each child reads it from the start.
  for (int child = 0; child < 2; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(same(inherited_secret(descriptor), secret) ? 0 : 1);
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(same(inherited_secret(descriptor), secret));
  EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  // The file cannot be changed.
  EXPECT_EQ(::pwrite(descriptor, "x", 1, 0), -1);
  ::close(descriptor);
}

TEST(Secret, IsNotTakenFromAnyDescriptor) {
  EXPECT_THROW(inherited_secret(-1), PermissionError);
  EXPECT_THROW(inherited_secret(0), PermissionError);
  EXPECT_THROW(inherited_secret(987), PermissionError);
}

}  // namespace
}  // namespace phalanx
