#pragma once
#include <string>
#include <vector>

#include "dtrain/study/report/model.hpp"

namespace dtrain {

/// The report for a terminal: tables, then sentences, then notes; a line each, without colours. Texts from files are
/// as they are there: print them by printable().
std::vector<std::string> report_text(const Report& report);

}  // namespace dtrain
