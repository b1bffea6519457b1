#pragma once
// Tables of segments for cases.

#include <memory>
#include <span>
#include <vector>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {

// A table and the memory of its host's rows.
struct CaseTableRows {
  std::shared_ptr<std::vector<Segment>> rows;
  SegmentTable table;
};
inline CaseTableRows case_segments(Operands& operands, std::vector<Segment> segments) {
  number_blocks(segments);
  std::vector<double> numbers;
  for (const Segment& segment : segments) {
    for (const std::int64_t number :
         {segment.begin, segment.count, segment.first_block, segment.group}) {
      numbers.push_back(static_cast<double>(number));
    }
  }
  CaseTableRows made;
  made.rows = std::make_shared<std::vector<Segment>>(std::move(segments));
  made.table = {*made.rows,
                operands.values(DType::kI64, {std::ssize(*made.rows), 4}, std::span(numbers))};
  return made;
}

// As make_job(); the job keeps the rows.
template <typename Op>
Job make_segments_job(const Op& op, const CaseTableRows& table, void (*front)(Context&, const Op&),
                      std::vector<Output> outputs) {
  Job job = make_job(op, front, std::move(outputs));
  job.run = [call = std::move(job.run), rows = table.rows](Context& context) { call(context); };
  return job;
}

}  // namespace phalanx::ops
