#include "phalanx/report/report.h"

#include <chrono>

#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/report/run.h"

namespace phalanx {

std::string report_of(const std::vector<std::filesystem::path>& directories,
                      const ReportOptions& options) {
  return report_page(read_runs(directories), options);
}

void ReportSink::end(const RunEnding& ending) {
  if (ending.save_is_lost) return;
  const std::filesystem::path path = directory_ / kReportName;
  write_file_durably(path, report_of({directory_}, {draw_, std::chrono::system_clock::now()}));
  log_info("> report: {}", path.string());
}

}  // namespace phalanx
