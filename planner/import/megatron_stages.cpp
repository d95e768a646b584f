#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/import/importers.h"
#include "planner/import/megatron_layout.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kPerVirtual = "--num-layers-per-virtual-pipeline-stage";
constexpr std::string_view kVirtual = "--num-virtual-stages-per-pipeline-rank";
constexpr std::string_view kFirst = "--decoder-first-pipeline-num-layers";
constexpr std::string_view kLayout = "--pipeline-model-parallel-layout";
constexpr std::string_view kLast = "--decoder-last-pipeline-num-layers";

std::string text(std::int64_t value) { return std::to_string(value); }

struct Stages {
  std::int64_t layers = 0;
  std::int64_t pp = 1;
  std::int64_t vpp = 1;
  std::optional<std::int64_t> first;  // layers of the first and of the last rank of the pipeline
  std::optional<std::int64_t> last;
};

// What Megatron-LM derives: layers of a rank ÷ layers of a virtual stage, both rounded down.
void import_virtual_stages(ForeignTable& a, Stages& s) {
  ImportDraft& draft = a.draft();
  if (a.read(kVirtual, "parallel.vpp")) s.vpp = draft.integer("parallel.vpp");
  const std::optional<std::int64_t> chunk = a.integer(kPerVirtual, {1, 4096});
  if (!chunk || s.layers == 0) return;
  const std::int64_t middle_ranks = s.pp - (s.first ? 1 : 0) - (s.last ? 1 : 0);
  const std::int64_t middle = s.layers - s.first.value_or(0) - s.last.value_or(0);
  if (middle_ranks <= 0 || middle <= 0) return;
  s.vpp = std::max<std::int64_t>(1, middle / middle_ranks / *chunk);
  a.derive(kPerVirtual, "parallel.vpp", s.vpp,
           "(" + text(middle) + " / " + text(middle_ranks) + ") / " + text(*chunk));
  // https://github.com/NVIDIA/Megatron-LM/issues/468
  const std::int64_t built = middle / middle_ranks / s.vpp * s.vpp * middle_ranks;
  if (built == middle) return;
  Diagnostic diagnostic =
      a.at(kPerVirtual, "NQD2311",
           "Megatron-LM would build " + text(built) + " of these " + text(middle) +
               " layers: each of " + text(middle_ranks) + " ranks gets " + text(s.vpp) + " · " +
               text(middle / middle_ranks / s.vpp) + ", rounded down");
  diagnostic.hint =
      "choose sizes whose product divides --num-layers: pp · layers of a virtual stage";
  draft.report(std::move(diagnostic));
}

// Layers of a rank, cut into its vpp virtual stages; nothing when they cannot be equal.
std::optional<std::vector<std::int64_t>> split_of(const std::vector<std::int64_t>& ranks,
                                                  std::int64_t vpp) {
  std::vector<std::int64_t> split;
  for (std::int64_t chunk = 0; chunk < vpp; ++chunk) {
    for (const std::int64_t layers : ranks) {
      if (layers % vpp != 0 || layers == 0) return std::nullopt;
      split.push_back(layers / vpp);
    }
  }
  return split;
}

void import_first_and_last(ForeignTable& a, const Stages& s) {
  const std::int64_t middle_ranks = s.pp - (s.first ? 1 : 0) - (s.last ? 1 : 0);
  const std::int64_t middle = s.layers - s.first.value_or(0) - s.last.value_or(0);
  const bool divides =
      middle_ranks == 0 ? middle == 0 : middle_ranks > 0 && middle % middle_ranks == 0;
  std::optional<std::vector<std::int64_t>> split;
  if (divides && middle >= 0) {
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(s.pp),
                                    middle_ranks > 0 ? middle / middle_ranks : 0);
    if (s.first) ranks.front() = *s.first;
    if (s.last) ranks.back() = *s.last;
    split = split_of(ranks, s.vpp);
  }
  const std::string_view key = s.first ? kFirst : kLast;
  if (split) {
    a.derive(key, "parallel.pipeline_split", std::move(*split), "the others share the rest");
    return;
  }
  a.draft().report(a.at(key, "NQD2311",
                        "the layers that remain, " + text(middle) +
                            ", cannot be shared equally by " + text(middle_ranks) + " ranks of " +
                            text(s.vpp) + " virtual stages"));
}

// Embedding and loss each count as a layer of the first and of the last stage.
void import_accounted_split(ForeignTable& a, const Stages& s, bool embedding, bool loss) {
  const std::string_view key = embedding ? "--account-for-embedding-in-pipeline-split"
                                         : "--account-for-loss-in-pipeline-split";
  const std::int64_t stages = s.pp * s.vpp;
  const std::int64_t counted = s.layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  const std::int64_t each = counted / stages;
  if (counted % stages != 0 || each < 2) {
    a.draft().report(a.at(key, "NQD2311",
                          text(counted) +
                              " layers, embedding and loss counted, cannot be shared "
                              "equally by " +
                              text(stages) + " stages"));
    return;
  }
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), each);
  if (embedding) --split.front();
  if (loss) --split.back();
  a.derive(key, "parallel.pipeline_split", std::move(split), "the others have " + text(each));
}

// Why nqd has no such pipeline; empty when it has. Its stages hold embedding and loss at their
// ends, prediction modules before the loss, and each at least one layer.
std::string unlike_ours(const std::vector<LayoutStage>& stages) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const LayoutStage& stage = stages[i];
    const std::string name = "stage " + std::to_string(i + 1) + " of " + text(std::ssize(stages));
    if (stage.layers == 0) return name + " has no layer; nqd's stages have at least one";
    if (stage.embedding != (i == 0)) return "nqd has the embedding in the first stage";
    const bool last = i + 1 == stages.size();
    if (stage.loss != last) return "nqd has the loss in the last stage";
    if (stage.mtp_layers > 0 && !last) return "nqd has prediction modules in the last stage";
  }
  return {};
}

struct Objection {
  std::string message;
  std::string hint;
};

// Why Megatron-LM has no run with these stages; nothing when it has.
std::optional<Objection> objection_to(const std::vector<LayoutStage>& stages, const Stages& s) {
  const auto count = static_cast<std::int64_t>(stages.size());
  std::int64_t layers = 0;
  for (const LayoutStage& stage : stages) layers += stage.layers;
  if (count > 1 && s.pp == 1) {
    return Objection{
        text(count) + " stages need a pipeline",
        "give --pipeline-model-parallel-size " + text(count) + ", or a layout of one stage"};
  }
  if (count % s.pp != 0) {
    return Objection{text(count) + " stages cannot be shared equally by " + text(s.pp) +
                         " ranks of the pipeline",
                     "choose a --pipeline-model-parallel-size that divides " + text(count)};
  }
  if (s.layers > 0 && layers != s.layers) {
    return Objection{
        "the layout has " + text(layers) + " layers, --num-layers says " + text(s.layers),
        "change --num-layers to " + text(layers) + ", or the layers of the stages"};
  }
  return std::nullopt;
}

// True when a layout is given, readable or not: no other key of the stages counts then.
bool import_layout(ForeignTable& a, Stages& s) {
  const std::optional<std::string> given = a.text(kLayout);
  if (!given) return a.has(kLayout);
  const auto report = [&](const std::string& code, const Objection& objection) {
    Diagnostic diagnostic = a.at(kLayout, code, objection.message);
    diagnostic.hint = objection.hint;
    a.draft().report(std::move(diagnostic));
    return true;
  };
  const std::optional<std::vector<LayoutStage>> stages = parse_pipeline_layout(*given);
  if (!stages) {
    return report("NQD1008",
                  {std::string(kLayout) + " is no layout of stages",
                   "such as Et*3|(tt|)*2tL: E embedding, t layer, m prediction module, L loss"});
  }
  if (const std::optional<Objection> objection = objection_to(*stages, s)) {
    return report("NQD2311", *objection);
  }
  const auto count = static_cast<std::int64_t>(stages->size());
  s.vpp = count / s.pp;
  a.derive(kLayout, "parallel.vpp", s.vpp, text(count) + " stages / " + text(s.pp) + " ranks");
  if (const std::string reason = unlike_ours(*stages); !reason.empty()) {
    a.drop(kLayout, reason);
  } else if (count > 1) {
    std::vector<std::int64_t> split;
    for (const LayoutStage& stage : *stages) split.push_back(stage.layers);
    a.derive(kLayout, "parallel.pipeline_split", std::move(split), "layers of each stage");
  }
  return true;
}

}  // namespace

void import_megatron_stages(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  Stages s;
  s.layers = draft.integer("model.layers");
  s.pp = draft.integer("parallel.pp", 1);
  s.first = a.integer(kFirst, {1, 4096});
  s.last = a.integer(kLast, {1, 4096});
  import_virtual_stages(a, s);
  const bool embedding = megatron_flag(a, "--account-for-embedding-in-pipeline-split");
  const bool loss = megatron_flag(a, "--account-for-loss-in-pipeline-split");
  const bool layout = import_layout(a, s);
  if (!layout && s.pp * s.vpp <= 4096 && s.layers > 0) {
    if (s.first || s.last) {
      import_first_and_last(a, s);
    } else if (embedding || loss) {
      import_accounted_split(a, s, embedding, loss);
    }
  }
  if (s.vpp > 1) {
    set_default(draft, "parallel.schedule", std::string("interleaved"), "virtual stages");
  } else {
    set_default(draft, "parallel.schedule", std::string("1f1b"), "Megatron-LM's schedule");
  }
}

}  // namespace nqd::planner
