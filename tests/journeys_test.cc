// Journeys of new users: tests/journeys takes the commands of the pages and runs them, at a tiny
// size, with the program that was built.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

const fs::path kJourneys = source_path("tests/journeys");

class Pages : public testing::Test {
 protected:
  // A script of tests/journeys; what it prints is in `output_`.
  int run(const std::string& script) {
    const fs::path log =
        fs::temp_directory_path() / fmt::format("phalanx_journey_{}_{}", script, ::getpid());
    const int status =
        std::system(fmt::format("PHALANX='{}' bash '{}' >'{}' 2>&1 </dev/null", program_path(),
                                (kJourneys / script).string(), log.string())
                        .c_str());
    std::ifstream file(log);
    output_ = {std::istreambuf_iterator<char>(file), {}};
    fs::remove(log);
    return WEXITSTATUS(status);
  }

  std::string output_;
};

class Journey : public Pages, public testing::WithParamInterface<const char*> {};

TEST_P(Journey, ArrivesByTheCommandsOfThePages) {
  EXPECT_EQ(run(std::string(GetParam()) + ".sh"), 0) << output_;
}

// That of a model of one's own is in own_model_test.cc.
constexpr const char* kNames[] = {"fine_tuning", "how_to",    "hugging_face",
                                  "installing",  "megatron",  "readme",
                                  "text_files",  "tutorials", "understanding"};
INSTANTIATE_TEST_SUITE_P(Of, Journey, testing::ValuesIn(kNames),
                         [](const auto& script) { return std::string(script.param); });

TEST_F(Pages, EveryCommandIsRunByAJourneyOrSkippedWithAReason) {
  EXPECT_EQ(run("check-pages"), 0) << output_;
}

TEST_F(Pages, EveryJourneyIsATest) {
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  names.emplace_back("own_model");
  for (const auto& entry : fs::directory_iterator(kJourneys)) {
    if (entry.path().extension() != ".sh") continue;
    EXPECT_EQ(std::ranges::count(names, entry.path().stem().string()), 1) << entry.path();
  }
}

}  // namespace
}  // namespace phalanx
