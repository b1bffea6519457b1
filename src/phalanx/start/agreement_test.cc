#include "phalanx/start/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::ElementsAre;

// Processes as threads: a round ends when all have brought their texts.
class Table {
 public:
  explicit Table(int size) : texts_(static_cast<std::size_t>(size)), all_here_(size) {}

  std::vector<std::string> gather(int rank, std::string mine) {
    texts_[static_cast<std::size_t>(rank)] = std::move(mine);
    all_here_.arrive_and_wait();
    std::vector<std::string> texts = texts_;
    all_here_.arrive_and_wait();
    return texts;
  }

 private:
  std::vector<std::string> texts_;
  std::barrier<> all_here_;
};

using Process = std::function<void(int rank, Agreement& agreement)>;

// The ends of three processes.
std::vector<std::string> ends_of(const Process& process) {
  constexpr int kProcesses = 3;
  Table table(kProcesses);
  std::vector<std::string> ends(kProcesses);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kProcesses; ++rank) {
    threads.emplace_back([&, rank] {
      const auto gather = [&table, rank](std::string mine) {
        return table.gather(rank, std::move(mine));
      };
      Agreement agreement({.gather = gather,
                           .broadcast = [&](std::string text) { return gather(text)[0]; },
                           .is_over = [] { return false; }},
                          std::vector<RankPlace>(kProcesses, RankPlace{.host_name = "n01"}));
      std::string& end = ends[static_cast<std::size_t>(rank)];
      try {
        agreement.prepare([&] { process(rank, agreement); });
        end = "done";
      } catch (const StoppedEarly&) {
        end = "stopped";
      } catch (const Error& error) {
        end = fmt::format("{}: {}", error.exit_status(), error.what());
      }
    });
  }
  threads.clear();
  return ends;
}

TEST(Agreement, TextsGoToAll) {
  EXPECT_THAT(ends_of([](int rank, Agreement& agreement) {
                EXPECT_EQ(agreement.broadcast(rank == 0 ? "first" : ""), "first");
                EXPECT_THAT(agreement.gather(std::to_string(rank)), ElementsAre("0", "1", "2"));
              }),
              Each("done"));
}

// In any round of the others, and also after their last one.
TEST(Agreement, AnErrorOfOneIsTheErrorOfAll) {
  for (int rounds = 0; rounds < 3; ++rounds) {
    EXPECT_THAT(ends_of([rounds](int rank, Agreement& agreement) {
                  for (int i = 0; i < 2; ++i) {
                    if (rank == 2 && i == rounds) throw ConfigError("--lr is {}", 0.1);
                    agreement.broadcast("text");
                  }
                  if (rank == 2) throw ConfigError("--lr is {}", 0.1);
                }),
                Each("78: rank 2 (host n01): --lr is 0.1"));
  }
}

TEST(Agreement, OfSeveralTheLowestRanksIsTold) {
  EXPECT_THAT(ends_of([](int rank, Agreement& /*agreement*/) {
                if (rank > 0) throw InputMissingError("{}: no such file", rank);
              }),
              Each("66: rank 1 (host n01): 1: no such file"));
}

TEST(Agreement, WhereOneIsStoppedAllAre) {
  EXPECT_THAT(ends_of([](int rank, Agreement& agreement) {
                if (rank == 1) throw StoppedEarly{};
                agreement.gather("text");
              }),
              Each("stopped"));
}

}  // namespace
}  // namespace phalanx
