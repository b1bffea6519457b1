#include "processes_test.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/paths.h"

namespace phalanx::processes {
namespace {

class OwnMachine : public testing::Environment {
 public:
  void SetUp() override { make_own_machine(); }
};

// Removed by GoogleTest.
const testing::Environment* const kOwnMachine =
    testing::AddGlobalTestEnvironment(new OwnMachine);  // NOLINT(cppcoreguidelines-owning-memory)

}  // namespace

ProcessesTest::ProcessesTest()
    : run_(fmt::format("{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                       ::getpid())) {}

ProcessesTest::~ProcessesTest() {
  for (const FoundProcess& process : processes_of(run_)) ::kill(process.pid, SIGKILL);
}

ChildProcess ProcessesTest::start(const std::string& name, const std::string& words,
                                  const Variables& environment, pid_t host_of,
                                  const std::vector<std::string>& before) const {
  ChildOptions options{.words = before,
                       .directory = directory_,
                       .name = name,
                       .environment = environment,
                       .host_of = host_of};
  options.words.emplace_back(program_path());
  std::istringstream stream(words);
  for (std::string word; stream >> word;) options.words.push_back(word);
  options.environment["PHALANX_TEST_RUN"] = run_;
  return ChildProcess(options);
}

ChildProcess ProcessesTest::launch(const std::string& name, const std::string& launch,
                                   const std::string& flags, pid_t host_of) const {
  return start(name, fmt::format("launch {} -- pretrain gpt {}", launch, flags), {}, host_of);
}

ChildProcess ProcessesTest::start_rank(int rank, int world_size, const std::string& flags,
                                       const Variables& more, const std::string& name) const {
  Variables environment = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(world_size)},
                           {"LOCAL_RANK", std::to_string(rank)},
                           {"LOCAL_WORLD_SIZE", std::to_string(world_size)},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(20000 + ::getpid() % 10000)}};
  for (const auto& [variable, value] : more) environment[variable] = value;
  return start(name.empty() ? fmt::format("rank_{}", rank) : name, "pretrain gpt " + flags,
               environment);
}

ProcessesTest::Variables ProcessesTest::host_of_its_own(int rank, int world_size,
                                                        const std::string& address) const {
  return {{"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"GROUP_RANK", std::to_string(rank)},
          {"GROUP_WORLD_SIZE", std::to_string(world_size)},
          {"MASTER_ADDR", address}};
}

int ProcessesTest::free_port() {
  static std::set<int> given;
  for (;;) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket, any, size) != 0 || ::getsockname(socket, any, &size) != 0) {
      throw std::runtime_error("no free port");
    }
    ::close(socket);
    const int port = ntohs(address.sin_port);
    if (given.insert(port).second) return port;
  }
}

void ProcessesTest::expect_end(ChildProcess& process, int status) {
  const std::optional<int> end = process.wait(kLimit);
  ASSERT_TRUE(end.has_value()) << process.name() << " still runs\n" << process.err();
  EXPECT_EQ(*end, status) << process.name() << "\n" << process.err();
}

std::string ProcessesTest::last_line(const ChildProcess& process) {
  std::string last;
  std::istringstream lines(process.err());
  for (std::string line; std::getline(lines, line);) last = line;
  return last;
}

std::string ProcessesTest::golden_line(const ChildProcess& process) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string line = last_line(process);
  const std::string named = fmt::format("host {}", host.data());
  for (auto at = line.find(named); at != std::string::npos; at = line.find(named, at + 1)) {
    line.replace(at, named.size(), "host HOST");
  }
  line = std::regex_replace(line, std::regex("pid [0-9]+"), "pid PID");
  line =
      std::regex_replace(line, std::regex("(phalanx-[0-9]+-none-)[0-9]+"), "phalanx-UID-none-PORT");
  return std::regex_replace(line, std::regex("(tcp:[a-z0-9.]+:)[0-9]+"), "$1PORT");
}

bool ProcessesTest::has_begun(const std::string& save) const {
  int asked = 0;
  const auto has = [&] { return iterations(save) >= 2; };
  eventually(kLimit, [&] { return has() || (++asked % 50 == 0 && processes_of(run_).empty()); });
  return has();
}

int ProcessesTest::iterations(const std::string& save) const {
  const std::string text = read(save + "/metrics.jsonl");
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

std::vector<std::string> ProcessesTest::results(const std::string& save) const {
  std::vector<std::string> lines;
  std::istringstream text(read(save + "/metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line);
    for (const char* measured :
         {"elapsed_s", "tokens_per_second", "model_flops_per_second", "peak_bytes", "rss_bytes",
          "mfu", "hfu", "waited_for_data_s", "waited_for_messages_s", "saving_s", "snapshot_wait_s",
          "save_bytes"}) {
      json.erase(measured);
    }
    lines.push_back(json.dump());
  }
  return lines;
}

ProcessesTest::Json ProcessesTest::digest(const std::string& save) const {
  return run_json("checkpoint digest --json " + save);
}

ProcessesTest::Json ProcessesTest::summary(const std::string& log_dir) const {
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / log_dir)) {
    const std::string text =
        read(std::filesystem::relative(entry.path() / "summary.json", directory_).string());
    if (!text.empty()) return Json::parse(text);
  }
  ADD_FAILURE() << "no summary in " << log_dir;
  return Json::object();
}

void ProcessesTest::expect_clean(const std::string& save, bool was_rank_0_killed) const {
  EXPECT_EQ(what_is_left(run_), "");
  if (save.empty() || !std::filesystem::exists(directory_ / save)) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ / save)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(was_rank_0_killed || name.find(".joining") == std::string::npos) << entry.path();
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << entry.path();
  }
}

}  // namespace phalanx::processes
