#pragma once
// The files of tests/planner_rows.

#include <cstddef>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/paths.h"

namespace phalanx {

// The fields of a line with commas; those with commas of their own are in quotes.
inline std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// A row by the names of its columns.
class PlannerRow {
 public:
  PlannerRow(const std::vector<std::string>& columns, const std::vector<std::string>& fields) {
    if (columns.size() != fields.size()) throw std::runtime_error("a row of another length");
    for (std::size_t i = 0; i < columns.size(); ++i) fields_[columns[i]] = fields[i];
  }
  const std::string& text(const std::string& column) const { return fields_.at(column); }
  double number(const std::string& column) const { return std::stod(text(column)); }
  int whole(const std::string& column) const { return std::stoi(text(column)); }

 private:
  std::map<std::string, std::string> fields_;
};

// All rows of tests/planner_rows/NAME; lines with # are comments.
inline std::vector<PlannerRow> planner_rows(const std::string& name) {
  std::ifstream file(source_path("tests/planner_rows/" + name));
  std::vector<std::string> columns;
  std::vector<PlannerRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (columns.empty()) {
      columns = fields_of(line);
    } else {
      rows.emplace_back(columns, fields_of(line));
    }
  }
  return rows;
}

}  // namespace phalanx
