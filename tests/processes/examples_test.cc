// The scripts of examples/cluster, with a small model and the program as it is.

#include "processes_test.h"
#include "tests/paths.h"

namespace phalanx::processes {
namespace {

class ClusterScripts : public ProcessesTest {
 protected:
  ChildProcess script(const std::string& name, Variables settings,
                      const std::vector<std::string>& flags = {}) const {
    settings["PHALANX"] = program_path();
    settings["PHALANX_TEST_RUN"] = run_mark();
    settings.insert({{"DATA_PATH", "data_text_document"},
                     {"VOCAB_FILE", "tok/vocab.json"},
                     {"MERGE_FILE", "tok/merges.txt"},
                     {"CHECKPOINT_PATH", "run"},
                     {"SEQUENCE", "32"},
                     {"HIDDEN", "32"},
                     {"HEADS", "2"},
                     {"MICROBATCH", "1"},
                     {"BATCH", "4"},
                     {"ITERATIONS", "4"},
                     {"EVAL_ITERATIONS", "0"}});
    const std::string path = (source_path("examples/cluster") / name).string();
    std::vector<std::string> words = {path};
    words.insert(words.end(), flags.begin(), flags.end());
    return ChildProcess(
        {.words = words, .directory = directory_, .name = "script", .environment = settings});
  }
};

TEST_F(ClusterScripts, OneHost) {
  prepare();
  ChildProcess threads = script("one_host_threads.sh", {{"LAYERS", "2"}}, {"--exit-interval", "2"});
  expect_end(threads, 0);
  EXPECT_EQ(metrics("run").size(), 2U);
  ChildProcess processes = script("one_host_processes.sh", {{"LAYERS", "2"}});
  expect_end(processes, 0);
  EXPECT_EQ(metrics("run").size(), 4U);
  expect_clean("run");
}

TEST_F(ClusterScripts, Tensor2Pipeline4) {
  prepare();
  ChildProcess processes = script("tensor2_pipeline4.sh", {{"LAYERS", "4"}});
  expect_end(processes, 0);
  EXPECT_EQ(metrics("run").size(), 4U);
  expect_clean("run");
}

TEST_F(ClusterScripts, TwoHostsInNamespaces) {
  if (!has_own_machine()) GTEST_SKIP() << "needs CAP_NET_ADMIN and CAP_SYS_ADMIN";
  prepare();
  ChildProcess hosts = script("two_hosts_in_namespaces.sh", {});
  expect_end(hosts, 0);
  EXPECT_EQ(metrics("run").size(), 4U);
  expect_clean("run");
}

}  // namespace
}  // namespace phalanx::processes
