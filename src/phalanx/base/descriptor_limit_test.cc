#include "phalanx/base/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// In a process of its own, which begins with these limits. `body` says whether all is well.
bool holds_with(rlim_t soft, rlim_t hard, const std::function<bool()>& body) {
  const int child = ::fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    ::_exit(::setrlimit(RLIMIT_NOFILE, &limit) == 0 && body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

rlim_t soft_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

TEST(DescriptorLimit, StaysWhereThereIsRoom) {
  EXPECT_TRUE(holds_with(200, 400, [] {
    raise_descriptor_limit(20, "a test");
    return soft_limit() == 200;
  }));
}

TEST(DescriptorLimit, IsRaisedToTheHardOne) {
  EXPECT_TRUE(holds_with(200, 400, [] {
    raise_descriptor_limit(250, "a test");
    return soft_limit() == 400;
  }));
}

TEST(DescriptorLimit, ThatIsTooLowIsSaidWithItsNumbers) {
  EXPECT_TRUE(holds_with(200, 400, [] {
    try {
      raise_descriptor_limit(10000, "the coordinator of 10000 ranks");
    } catch (const SystemError& error) {
      const std::string text = error.what();
      return text.starts_with(
                 "the coordinator of 10000 ranks needs 10000 more file descriptors, ") &&
             text.find("this process may have 400: raise the hard limit") != std::string::npos &&
             soft_limit() == 200;
    }
    return false;
  }));
}

}  // namespace
}  // namespace phalanx
