#include "phalanx/rendezvous/munge.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

// Puts programs on the PATH that behave as MUNGE's.
class Munge : public testing::Test {
 protected:
  Munge() : path_(std::getenv("PATH")) {
    ::setenv("PATH", (directory_.string() + ":" + path_).c_str(), 1);
    program("munge", "printf 'MUNGE:%s:' \"$2\"; cat");
    unmunge(std::to_string(::geteuid()), 0);
  }
  ~Munge() override { ::setenv("PATH", path_.c_str(), 1); }
  void program(const std::string& name, const std::string& script) const {
    const std::filesystem::path file = directory_ / name;
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    ::chmod(file.c_str(), 0755);
  }
  void unmunge(const std::string& uid, int status) const {
    program("unmunge", "printf 'STATUS: any\\nUID:   somebody (" + uid +
                           ")\\nGID: g (7)\\n\\n'; sed 's/.*://'; exit " + std::to_string(status));
  }

  const std::string path_;
  const TemporaryDirectory temporary_{"munge"};
  const std::filesystem::path directory_ = temporary_.path();
};

TEST_F(Munge, CarriesTheSecret) {
  EXPECT_TRUE(has_munge());
  const Secret secret = make_secret();
  const std::string credential = make_munge_credential(secret);
  EXPECT_TRUE(credential.starts_with("MUNGE:" + std::to_string(::geteuid()) + ":"));
  const auto is_carried = [&] {
    return std::ranges::equal(read_munge_credential(credential).bytes(), secret.bytes());
  };
  EXPECT_TRUE(is_carried());
  // Another rank of this host has decoded it before.
  unmunge(std::to_string(::geteuid()), 17);
  EXPECT_TRUE(is_carried());
}

TEST_F(Munge, OfAnotherUserOrBrokenIsRefused) {
  const std::string credential = make_munge_credential(make_secret());
  unmunge("12345", 0);
  EXPECT_THROW(read_munge_credential(credential), PermissionError);
  unmunge(std::to_string(::geteuid()), 8);
  EXPECT_THROW(read_munge_credential(credential), PermissionError);
  unmunge(std::to_string(::geteuid()), 0);
  EXPECT_THROW(read_munge_credential("MUNGE:0:abcd"), PermissionError);
  EXPECT_THROW(read_munge_credential("MUNGE:0:" + std::string(64, 'x')), PermissionError);
  program("unmunge", "exit 0");
  EXPECT_THROW(read_munge_credential(credential), PermissionError);
  program("munge", "exit 6");
  EXPECT_THROW(make_munge_credential(make_secret()), SystemError);
}

TEST_F(Munge, IsThereWhereBothProgramsAre) {
  ::setenv("PATH", directory_.c_str(), 1);
  EXPECT_TRUE(has_munge());
  std::filesystem::remove(directory_ / "unmunge");
  EXPECT_FALSE(has_munge());
}

TEST_F(Munge, MembersWithoutASecretJoinByIt) {
  CoordinatorOptions options = coordinator_options(tcp_endpoint("127.0.0.1"), 3);
  options.with_munge = true;
  const Coordinator coordinator(options);
  const Secret secret = std::exchange(options.secret, {});
  auto members = join_all(coordinator, options, [&](MemberOptions& of_rank) {
    of_rank.with_munge = true;
    // The process of the first rank has made it.
    if (of_rank.environment.rank == 0) of_rank.secret = secret;
  });
  leave_all(members);
}

TEST_F(Munge, OneOfAnotherUserDoesNotJoin) {
  CoordinatorOptions options = coordinator_options(tcp_endpoint("127.0.0.1"), 1);
  options.with_munge = true;
  const Coordinator coordinator(options);
  unmunge("12345", 0);
  MemberOptions of_rank = member_options(coordinator, options, 0);
  of_rank.secret = {};
  of_rank.with_munge = true;
  EXPECT_EQ(error_of([&] { Member::join(of_rank); }).first, 77);
  // A coordinator without MUNGE says so.
  options.with_munge = false;
  const Coordinator without(options);
  of_rank.environment.endpoint = without.endpoint();
  const auto [code, text] = error_of([&] { Member::join(of_rank); });
  EXPECT_EQ(code, 77);
  EXPECT_NE(text.find("gives its secret to nobody"), std::string::npos) << text;
}

}  // namespace
}  // namespace phalanx::rendezvous
