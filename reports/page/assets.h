// Files that the build embeds into the binary.
#pragma once

#include <string_view>

namespace nqd::reports::assets {

std::string_view chart_js();    // Chart.js, minified, with its licence comment
std::string_view report_css();  // reports/page/report.css
std::string_view report_js();   // reports/page/report.js

}  // namespace nqd::reports::assets
