// The selftest itself, on the emulated CUDA device and on the processor: it passes, and a planted
// fault ends it with the name of the check.

#include "phalanx/selftest/selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/ops/checked_device.h"
#include "phalanx/selftest/report.h"
#include "phalanx/selftest/training_checks.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

class Selftests : public testing::Test {
 protected:
  Selftests() { ::setenv("XDG_STATE_HOME", directory_.path().c_str(), 1); }
  ~Selftests() override { ::unsetenv("XDG_STATE_HOME"); }

  SelftestEnd run(const std::string& device, const std::vector<std::string>& parts,
                  const SelftestSubject& subject = {}) {
    shown_.clear();
    const SelftestOptions options{
        .device = device, .quick = true, .output = directory_ / "out", .parts = parts};
    return selftest(options, {.put = [&](std::string_view text) { shown_ += text; }}, subject);
  }
  Json json() const { return Json::parse(read_file(directory_ / "out/selftest.json")); }
  // The names of checks that did not pass.
  std::vector<std::string> failures() const {
    std::vector<std::string> names;
    const Json document = json();
    for (const Json& check : document.at("checks")) {
      if (!check.at("passed")) names.push_back(check.at("name"));
    }
    return names;
  }

  TemporaryDirectory directory_;
  std::string shown_;
};

TEST_F(Selftests, OfTheProcessorPass) {
  const SelftestEnd end = run("cpu", {"training"});
  EXPECT_EQ(end.failed, 0) << shown_;
  EXPECT_EQ(end.passed, 4);
}

TEST_F(Selftests, HaveTheLossesOfAProcessor) {
  for (const StoredLosses& stored : stored_losses()) {
    const std::vector<double> losses = tiny_losses(stored.precision, "cpu", "fp32");
    if (std::getenv("PHALANX_SHOW_LOSSES") != nullptr) {
      for (const double loss : losses)
        std::printf("loss %s %.9g\n", stored.precision.c_str(), loss);
      continue;
    }
    ASSERT_EQ(losses.size(), stored.losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], stored.losses[i], 1e-5 * losses[i]) << stored.precision << " " << i;
    }
    EXPECT_LT(losses.back(), 0.9 * losses.front());
  }
}

// A device that adds 1 to a number of one op's first output.
class FaultyBackend final : public Backend {
 public:
  explicit FaultyBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  std::int64_t workspace_bytes_of_op(std::size_t number, const void* op) const override {
    return backend_->workspace_bytes_of_op(number, op);
  }
  MemorySpace space() const override { return backend_->space(); }
  void upload(Queue queue, const Tensor& to, std::span<const std::byte> from) override {
    backend_->upload(queue, to, from);
  }
  ReadBack read_later(Queue queue, const Tensor& from) override {
    return backend_->read_later(queue, from);
  }
  void read_back(Queue queue, const Tensor& from, std::span<std::byte> to) override {
    backend_->read_back(queue, from, to);
  }
  Event record(Queue queue) override { return backend_->record(queue); }
  void wait(Queue queue, Event event) override { backend_->wait(queue, event); }
  bool passed(Event event) override { return backend_->passed(event); }
  void wait_host(Event event) override { backend_->wait_host(event); }

 private:
  void run_op(Queue queue, std::size_t number, const void* op, const Tensor& scratch) override {
    run_any(ops::OpList(), queue, number, op, scratch);
    if (number != ops::number_in<ops::TanhForward>(ops::OpList())) return;
    const Tensor y = static_cast<const ops::TanhForward*>(op)->y;
    const ops::Scale half{.y = y, .x = y, .factor = 0.5};
    backend_->run(queue, half, scratch);  // in place
  }
  template <typename... Ops>
  void run_any(ops::OpListOf<Ops...> /*list*/, Queue queue, std::size_t number, const void* op,
               const Tensor& scratch) {
    std::size_t at = 0;
    (void)((at++ == number &&
            (backend_->run(queue, *static_cast<const Ops*>(op), scratch), true)) ||
           ...);
  }

  std::unique_ptr<Backend> backend_;
};

// All parts on the emulated device, with three faults: what is right passes, what is not is named.
TEST_F(Selftests, OfTheEmulatedDeviceNameWhatIsWrong) {
  CudaInterface table = cuda_interface(CudaMachine::kEmulated);
  table.backend = [](int device, void (*note)() noexcept) -> std::unique_ptr<Backend> {
    return std::make_unique<FaultyBackend>(
        cuda_interface(CudaMachine::kEmulated).backend(device, note));
  };
  SelftestSubject subject{
      .cuda = &table, .digests = read_file(source_path("src/phalanx/ops/cuda/check/expected.txt"))};
  char& digit = subject.digests[subject.digests.find("\n32 ") + 4];
  digit = digit == '0' ? '1' : '0';
  subject.losses[0].losses[6] *= 1.001;

  const SelftestEnd end = run("cuda-emulated", {}, subject);
  std::vector<std::string> others;
  for (const std::string& name : failures()) {
    if (!name.starts_with("case table: tanh_forward")) others.push_back(name);
  }
  EXPECT_THAT(others, ElementsAre("member atomics", "tiny GPT, fp32: losses of 20 steps"));
  EXPECT_GT(failures().size(), others.size());
  EXPECT_EQ(end.failed, static_cast<int>(failures().size()));
  EXPECT_THAT(shown_, AllOf(HasSubstr("FAILED case table: tanh_forward"),
                            HasSubstr("member atomics: 32 bytes of 32, parts that differ: 0;"),
                            HasSubstr("step 7: ")));

  const Json document = json();
  EXPECT_EQ(document.at("complete"), true);
  EXPECT_EQ(document.at("failed"), end.failed);
  EXPECT_EQ(document.at("checks").size(), static_cast<std::size_t>(end.passed + end.failed));
  EXPECT_EQ(document.at("versions").at("products"), "cuda-sm80-lt1");
  EXPECT_EQ(document.at("device").at("capability"), "8.0");
  // A check of every part.
  std::set<std::string> begins;
  for (const Json& check : document.at("checks")) {
    const std::string name = check.at("name");
    begins.insert(name.substr(0, name.find_first_of(" :")));
  }
  for (const char* begin :
       {"memory", "copies", "member", "function", "attention", "case", "product", "tiny"}) {
    EXPECT_TRUE(begins.contains(begin)) << begin;
  }
  for (const Json& rate : document.at("rates")) EXPECT_GT(rate.at("value"), 0) << rate;
  const std::string text = read_file(directory_ / "out/selftest.txt");
  EXPECT_EQ(text, shown_.substr(0, text.size()));
  // Nobody asks whether emulated devices were checked.
  EXPECT_FALSE(std::filesystem::exists(directory_ / "phalanx"));
}

TEST_F(Selftests, SayWhatADeviceDoesNotHave) {
  EXPECT_THAT(error_of<ConfigError>([&] { run("cpu", {"memory"}); }),
              HasSubstr("--only memory: --device cpu has the parts cases, training"));
  // As a run that asks for it (ops/device_choice.h).
  ::setenv("CUDA_VISIBLE_DEVICES", "0,x", 1);
  EXPECT_THAT(error_of<ConfigError>([&] { run("cuda-emulated", {"copies"}); }),
              HasSubstr("CUDA_VISIBLE_DEVICES=0,x"));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  std::ofstream(directory_ / "out") << "a file\n";
  EXPECT_THAT(error_of<OutputError>([&] { run("cpu", {"training"}); }), HasSubstr("--output"));
}

// A device that passes is remembered, one that fails is forgotten.
TEST_F(Selftests, AreRememberedOfDevices) {
  CudaInterface table = cuda_interface(CudaMachine::kEmulated);
  const cuda::Facts facts = table.facts(0);
  const CheckedDevice device{facts.name, facts.driver_version, table.products(0)};
  table.check = [](DevicePart, const DeviceCheckOptions&, CheckSink&) {};
  // Trainings open the program's own library: they are left to the emulated device.
  SelftestSubject subject{.cuda = &table, .losses = {}};
  table.backend = [](int device_number, void (*note)() noexcept) -> std::unique_ptr<Backend> {
    return cuda_interface(CudaMachine::kEmulated).backend(device_number, note);
  };
  EXPECT_EQ(run("cuda", {"memory"}, subject).failed, 0);
  EXPECT_FALSE(is_checked(device)) << "a part of it is not all of it";
  EXPECT_EQ(keep_checked(device, true), "");
  table.check = [](DevicePart, const DeviceCheckOptions&, CheckSink& sink) {
    sink.add(CheckResult{.name = "memory", .passed = false});
  };
  EXPECT_EQ(run("cuda", {"memory"}, subject).failed, 1);
  EXPECT_FALSE(is_checked(device));
}

class SelftestReports : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

// What was found is in the files before the next check begins.
TEST_F(SelftestReports, WriteBeforeTheNextCheckBegins) {
  SelftestReport report({.folder = directory_.path()}, R"({"name": "a"})", "{}");
  report.begin("one", 100);
  report.add(CheckResult{.name = "one \"quoted\"", .passed = true, .error = std::nan("")});
  report.add(RateResult{.name = "copy", .value = 3.5, .unit = "GB/s", .share_of_peak = 0.5});
  report.begin("two", 100);
  const Json document = Json::parse(read_file(directory_ / "selftest.json"));
  EXPECT_EQ(document.at("checks").at(0).at("name"), "one \"quoted\"");
  EXPECT_TRUE(document.at("checks").at(0).at("error").is_null());
  EXPECT_EQ(document.at("rates").at(0).at("share_of_peak"), 0.5);
  EXPECT_EQ(document.at("complete"), false);
  EXPECT_THAT(read_file(directory_ / "selftest.txt"),
              AllOf(HasSubstr("ok     one"), HasSubstr("3.5 GB/s, 50.0 %")));
}

TEST_F(SelftestReports, EndACheckThatHangs) {
  std::mutex mutex;
  std::condition_variable changed;
  bool hung = false;
  SelftestReport report({.folder = directory_.path(),
                         .hangs =
                             [&] {
                               const std::lock_guard<std::mutex> lock(mutex);
                               hung = true;
                               changed.notify_all();
                             }},
                        "{}", "{}");
  report.begin("a product", 0.01);
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return hung; });
  const Json check = Json::parse(read_file(directory_ / "selftest.json")).at("checks").at(0);
  EXPECT_EQ(check.at("name"), "a product");
  EXPECT_EQ(check.at("passed"), false);
  EXPECT_THAT(check.at("more"), HasSubstr("longer than its limit of 0.01 s"));
}

// Also where the results can no longer be written.
TEST_F(SelftestReports, EndACheckThatHangsWithoutADisk) {
  std::promise<void> hung;
  const std::string folder = directory_ / "gone";
  std::filesystem::create_directory(folder);
  SelftestReport report({.folder = folder, .hangs = [&] { hung.set_value(); }}, "{}", "{}");
  std::filesystem::remove_all(folder);
  report.begin("a product", 0.01);
  hung.get_future().wait();
}

}  // namespace
}  // namespace phalanx
