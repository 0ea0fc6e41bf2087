#pragma once
#include <string>

#include "dtrain/study/report/model.hpp"

namespace dtrain {

/// report.html: one file that needs nothing else, neither scripts nor the network, and forbids itself both. Light or
/// dark as the reader's screen asks, printable, and readable from 360 pixels on; every chart has its values as a table.
/// Names that come from files are escaped. The same report gives the same bytes.
std::string report_page(const Report& report);

}  // namespace dtrain
