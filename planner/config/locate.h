// Dotted paths of a diagnostic to places in the file.
#pragma once

#include "base/diagnostic.h"
#include "planner/config/config.h"
#include "planner/config/source.h"

namespace nqd::planner {

// locate() of config.h for a caller that already holds the text as a Source.
void locate_in(Diagnostic& diagnostic, const LoadedConfig& loaded, const Source& source);

}  // namespace nqd::planner
