// Whole training steps: tokens per second, the share of the processor's peak, and where the time
// went. docs/performance.md says how to read it.

#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"
#include "step_report.h"
#include "step_run.h"

namespace phalanx::bench {
namespace {

struct Options {
  StepSetting setting;
  std::vector<std::string> models = {"gpt2-124m", "small"};
  std::vector<std::string> dtypes = {"f32", "bf16"};
  std::int64_t beside = 0;
  bool profile = false;
  bool markdown = false;
  bool json = false;
};

Options parse(const std::vector<std::string>& arguments) {
  Options o;
  StepSetting& s = o.setting;
  FlagSet flags("bench_step", "Times whole training steps on random tokens.");
  flags.add(
      {.name = "--model",
       .help = "Some of gpt2-124m, small, bert-base, t5-small, llama-160m, moe-8x, moe-8x-dense; "
               "else the first two"},
      &o.models);
  flags.add({.name = "--dtype", .help = "Some of f32, bf16; else both"}, &o.dtypes);
  flags.add({.name = "--threads", .help = "Threads; 0: all cores"}, &s.threads);
  flags.add({.name = "--steps", .help = "Timed steps, after 2 of warm-up; 0: by the model"},
            &s.steps);
  flags.add({.name = "--micro-batch", .help = "Sequences in a microbatch"}, &s.micro_batch);
  flags.add({.name = "--global-batch", .help = "Sequences in a step; 0: one microbatch"},
            &s.global_batch);
  flags.add({.name = "--seq-length", .help = "Tokens in a sequence; a T5's decoder has a quarter"},
            &s.sequence);
  flags.add({.name = "--lora-rank",
             .help = "Train adapters of this rank at all linears of layers, not the model"},
            &s.lora_rank);
  flags.add({.name = "--attention", .help = "fused, unfused"}, &s.attention);
  flags.add({.name = "--matmul-precision", .help = "auto, fp32, bf16, amx2"}, &s.matmul_precision);
  flags.add({.name = "--beside", .help = "Other programs that compute all the time"}, &o.beside);
  flags.add({.name = "--profile", .help = "The operations of a step, longest first"}, &o.profile);
  flags.add({.name = "--markdown", .help = "A table for docs/performance.md"}, &o.markdown);
  flags.add({.name = "--json", .help = "A line of JSON for each model and dtype"}, &o.json);
  flags.parse(arguments);
  return o;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(descriptor, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

int report_error(const Error& error) {
  fmt::print(stderr, "bench_step: {}\n", error.what());
  return error.exit_status();
}

[[noreturn]] void run_child(const StepSetting& setting, bool bandwidth, int descriptor) {
  int status = 0;
  try {
    const std::string text = to_json(run_steps(setting, bandwidth));
    std::FILE* out = fdopen(descriptor, "w");
    std::fputs(text.c_str(), out);
    std::fclose(out);
  } catch (const Error& error) {
    status = report_error(error);
  }
  std::fflush(nullptr);
  _exit(status);
}

// Each run has a process of its own, so that one's memory is not another's.
StepReport run_in_child(const StepSetting& setting, bool bandwidth) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw SystemError("bench_step: pipe failed");
  const pid_t child = fork();
  if (child < 0) throw SystemError("bench_step: fork failed");
  if (child == 0) {
    close(ends[0]);
    run_child(setting, bandwidth, ends[1]);
  }
  close(ends[1]);
  const std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status))
    throw SystemError("bench_step: the run died of signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) _exit(WEXITSTATUS(status));  // it has said why
  return report_from_json(text);
}

void print(const Options& options, const StepReport& report) {
  if (options.json) {
    fmt::print("{}", to_json(report));
  } else if (options.markdown) {
    fmt::print("{}", markdown_row(report));
  } else {
    fmt::print("{}", to_text(report));
    if (options.profile) fmt::print("{}", profile_text(report));
    fmt::print("\n");
  }
  std::fflush(stdout);
}

// Programs that take what the system gives them of the cores.
class BusyPrograms {
 public:
  explicit BusyPrograms(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child < 0) throw SystemError("bench_step: fork failed");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile std::int64_t turns = 0;;) turns = turns + 1;
      }
      children_.push_back(child);
    }
  }
  BusyPrograms(const BusyPrograms&) = delete;
  BusyPrograms& operator=(const BusyPrograms&) = delete;
  ~BusyPrograms() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

void run(const Options& options) {
  if (options.markdown) fmt::print("{}", markdown_header());
  std::fflush(stdout);  // the children must not inherit what is not yet written
  for (const std::string& model : options.models) {
    for (const std::string& dtype : options.dtypes) {
      StepSetting setting = options.setting;
      setting.model = model;
      setting.dtype = dtype;
      const BusyPrograms others(options.beside);
      print(options, run_in_child(setting, options.profile));
    }
  }
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  try {
    phalanx::bench::run(phalanx::bench::parse({argv + 1, argv + argc}));
    return 0;
  } catch (const phalanx::HelpRequested& help) {
    fmt::print("{}", help.text);
    return 0;
  } catch (const phalanx::Error& error) {
    return phalanx::bench::report_error(error);
  }
}
