// JSON of a checkpoint: the manifest of a generation and the record of one rank's file.
#pragma once

#include <string>

#include "engine/checkpoint/manifest.h"

namespace nqd::engine {

std::string manifest_json(const Manifest& manifest);
// `name` is that of the text in messages. Throws Error (kUsage): NQD2080 for text that is no
// manifest or contradicts itself (a file twice, a tensor's elements missing or given twice),
// NQD2081 for a newer format.
Manifest parse_manifest(const std::string& text, const std::string& name);

std::string checkpoint_file_json(const CheckpointFile& file);
// Throws Error (kUsage, NQD2080).
CheckpointFile parse_checkpoint_file(const std::string& text, const std::string& name);

}  // namespace nqd::engine
