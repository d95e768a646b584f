// One function a foreign format: text to draft. None throws for bad input; findings go to the
// draft.
#pragma once

#include <cstdint>
#include <string>

#include "planner/config/source.h"
#include "planner/import/foreign_table.h"
#include "planner/import/import_draft.h"

namespace nqd::planner {

void import_megatron(const Source& script, ImportDraft& draft);
// `ranks`: of the whole run, 0 = not known.
void import_deepspeed(const Source& config, std::int64_t ranks, ImportDraft& draft);
void import_hugging_face(const Source& config, ImportDraft& draft);
void import_torchtitan(const Source& job, std::int64_t ranks, ImportDraft& draft);

// The parts of import_megatron, in the order in which they are called: a later one reads what an
// earlier one has set.
void import_megatron_mesh(ForeignTable& arguments, ForeignTable& launcher);
void import_megatron_model(ForeignTable& arguments);
void import_megatron_stages(ForeignTable& arguments);
void import_megatron_training(ForeignTable& arguments);
// Warns of arguments that look like a misspelt one (NQD2317).
void suggest_megatron_arguments(ForeignTable& arguments, const YamlNode& map);
void drop_megatron_rest(ForeignTable& arguments, ForeignTable& launcher);

// An argument without a value; true when it is given. A value behind it is reported (NQD1008).
bool megatron_flag(ForeignTable& arguments, std::string_view key);
// What the foreign tool does when it is told nothing.
void set_default(ImportDraft& draft, std::string_view path, Value value, std::string comment);

}  // namespace nqd::planner
