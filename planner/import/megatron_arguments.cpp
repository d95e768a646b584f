#include "planner/import/megatron_arguments.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include "planner/import/foreign_tree.h"
#include "planner/import/shell.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kKnown[] = {"--num-layers",
                                       "--hidden-size",
                                       "--ffn-hidden-size",
                                       "--num-attention-heads",
                                       "--num-query-groups",
                                       "--group-query-attention",
                                       "--kv-channels",
                                       "--seq-length",
                                       "--max-position-embeddings",
                                       "--vocab-size",
                                       "--make-vocab-size-divisible-by",
                                       "--tokenizer-type",
                                       "--swiglu",
                                       "--normalization",
                                       "--norm-epsilon",
                                       "--untie-embeddings-and-output-weights",
                                       "--disable-bias-linear",
                                       "--add-qkv-bias",
                                       "--position-embedding-type",
                                       "--use-rotary-position-embeddings",
                                       "--no-position-embedding",
                                       "--rotary-base",
                                       "--use-rope-scaling",
                                       "--rope-scaling-factor",
                                       "--tensor-model-parallel-size",
                                       "--pipeline-model-parallel-size",
                                       "--context-parallel-size",
                                       "--expert-model-parallel-size",
                                       "--expert-tensor-parallel-size",
                                       "--num-layers-per-virtual-pipeline-stage",
                                       "--num-virtual-stages-per-pipeline-rank",
                                       "--decoder-first-pipeline-num-layers",
                                       "--decoder-last-pipeline-num-layers",
                                       "--account-for-embedding-in-pipeline-split",
                                       "--account-for-loss-in-pipeline-split",
                                       "--sequence-parallel",
                                       "--use-distributed-optimizer",
                                       "--use-torch-fsdp2",
                                       "--use-megatron-fsdp",
                                       "--use-custom-fsdp",
                                       "--data-parallel-sharding-strategy",
                                       "--use-tp-pp-dp-mapping",
                                       "--micro-batch-size",
                                       "--global-batch-size",
                                       "--train-iters",
                                       "--train-samples",
                                       "--recompute-granularity",
                                       "--recompute-method",
                                       "--recompute-num-layers",
                                       "--recompute-activations",
                                       "--recompute-modules",
                                       "--fp16",
                                       "--bf16",
                                       "--fp8-format",
                                       "--fp8-hybrid",
                                       "--fp8-e4m3",
                                       "--transformer-impl",
                                       "--use-flash-attn",
                                       "--attention-backend",
                                       "--attention-dropout",
                                       "--hidden-dropout",
                                       "--accumulate-allreduce-grads-in-fp32",
                                       "--main-grads-dtype",
                                       "--grad-reduce-in-bf16",
                                       "--num-experts",
                                       "--moe-router-topk",
                                       "--moe-ffn-hidden-size",
                                       "--moe-shared-expert-intermediate-size",
                                       "--moe-shared-expert-gate",
                                       "--moe-router-enable-expert-bias",
                                       "--moe-layer-freq",
                                       "--moe-expert-capacity-factor",
                                       "--multi-latent-attention",
                                       "--q-lora-rank",
                                       "--kv-lora-rank",
                                       "--qk-head-dim",
                                       "--qk-pos-emb-head-dim",
                                       "--v-head-dim",
                                       "--mtp-num-layers",
                                       "--optimizer",
                                       "--sgd-momentum",
                                       "--optimizer-cpu-offload",
                                       "--optimizer-offload-fraction",
                                       "--lr",
                                       "--min-lr",
                                       "--weight-decay",
                                       "--adam-beta1",
                                       "--adam-beta2",
                                       "--adam-eps",
                                       "--clip-grad",
                                       "--lr-decay-style",
                                       "--lr-wsd-decay-style",
                                       "--lr-wsd-decay-iters",
                                       "--lr-wsd-decay-samples",
                                       "--lr-warmup-iters",
                                       "--lr-warmup-fraction",
                                       "--lr-warmup-samples",
                                       "--lr-decay-iters",
                                       "--ddp-bucket-size",
                                       "--seed",
                                       "--eval-interval"};

bool is_flag(std::string_view word) {
  const std::string_view name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::size_t dashes = word.size() - name.size();
  return (dashes == 1 || dashes == 2) && !name.empty() &&
         std::isalpha(static_cast<unsigned char>(name.front())) != 0;
}

// "--tensor_model_parallel_size=8" -> "--tensor-model-parallel-size".
std::string key_of(std::string_view word) {
  std::string key(word.substr(0, word.find('=')));
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

int known_words(const ShellCommand& command) {
  const auto all = known_megatron_arguments();
  return static_cast<int>(
      std::count_if(command.words.begin(), command.words.end(), [&](const ShellWord& word) {
        return is_flag(word.text) &&
               std::find(all.begin(), all.end(), key_of(word.text)) != all.end();
      }));
}

YamlNode scalar(std::string text, Place place) {
  return {YamlNode::Kind::kScalar, place, std::move(text), false, {}, {}};
}

// Gathers words into arguments.
class ArgumentBuilder {
 public:
  ArgumentBuilder(const Source& source, std::vector<Diagnostic>& diagnostics)
      : source_(source), diagnostics_(diagnostics) {
    map_.kind = YamlNode::Kind::kMap;
  }

  void add(const ShellWord& word) {
    if (!is_flag(word.text)) {
      if (open_) add_value(map_.entries[current_].value, scalar(word.text, word.place));
      return;
    }
    YamlNode value;
    value.place = word.place;
    const std::size_t equals = word.text.find('=');
    if (equals != std::string::npos) {
      value = scalar(word.text.substr(equals + 1),
                     {word.place.line, word.place.column + static_cast<int>(equals) + 1});
    }
    open(key_of(word.text), word.place, std::move(value));
  }

  void begin_command() { open_ = false; }

  YamlNode take() { return std::move(map_); }

 private:
  void open(const std::string& key, Place place, YamlNode value) {
    const auto [found, fresh] = index_.try_emplace(key, map_.entries.size());
    if (fresh) {
      map_.entries.push_back({key, place, std::move(value)});
    } else {
      YamlEntry& entry = map_.entries[found->second];
      warn_of_repetition(key, place, entry.key_place);
      entry.key_place = place;
      entry.value = std::move(value);
    }
    current_ = found->second;
    open_ = true;
  }

  void warn_of_repetition(const std::string& key, Place place, Place first) {
    if (!has_room(source_, diagnostics_)) return;
    Diagnostic diagnostic =
        source_.error("NQD2313", place, key, key + " is given twice: the last counts");
    diagnostic.severity = Severity::kWarning;
    diagnostic.related.push_back({{source_.name(), first.line, first.column}, "the first is here"});
    diagnostics_.push_back(std::move(diagnostic));
  }

  static void add_value(YamlNode& value, YamlNode word) {
    if (value.kind == YamlNode::Kind::kNull) {
      value = std::move(word);
      return;
    }
    if (value.kind == YamlNode::Kind::kScalar) {
      YamlNode list{YamlNode::Kind::kSequence, value.place, {}, false, {}, {}};
      list.items.push_back(std::move(value));
      value = std::move(list);
    }
    value.items.push_back(std::move(word));
  }

  const Source& source_;
  std::vector<Diagnostic>& diagnostics_;
  YamlNode map_;
  std::map<std::string, std::size_t> index_;
  std::size_t current_ = 0;
  bool open_ = false;
};

// A line that starts with an argument belongs to the command before it.
std::vector<ShellCommand> joined_lines(std::vector<ShellCommand> commands) {
  std::vector<ShellCommand> result;
  for (ShellCommand& command : commands) {
    if (!result.empty() && is_flag(command.words.front().text)) {
      std::move(command.words.begin(), command.words.end(),
                std::back_inserter(result.back().words));
    } else {
      result.push_back(std::move(command));
    }
  }
  return result;
}

}  // namespace

std::span<const std::string_view> known_megatron_arguments() { return kKnown; }

std::optional<MegatronArguments> megatron_arguments(const Source& source,
                                                    std::vector<Diagnostic>& diagnostics) {
  const std::vector<ShellCommand> commands = joined_lines(read_script(source, diagnostics));
  if (has_errors(diagnostics)) return std::nullopt;
  const auto best = std::max_element(
      commands.begin(), commands.end(),
      [](const ShellCommand& a, const ShellCommand& b) { return known_words(a) < known_words(b); });
  if (best == commands.end() || known_words(*best) == 0) {
    Diagnostic diagnostic =
        source.error("NQD2301", {}, "", "no command here has an argument of Megatron-LM");
    diagnostic.expected = "a command or lines with arguments such as --num-layers 32";
    diagnostic.hint =
        "give the script that starts pretrain_gpt.py, after the files that it sources";
    diagnostics.push_back(std::move(diagnostic));
    return std::nullopt;
  }
  const auto program =
      std::find_if(best->words.begin(), best->words.end(),
                   [](const ShellWord& word) { return word.text.ends_with(".py"); });
  ArgumentBuilder launcher(source, diagnostics);
  for (const ShellCommand& command : commands) {
    if (command.words.front().text != "#SBATCH") continue;
    launcher.begin_command();
    for (const ShellWord& word : command.words) launcher.add(word);
  }
  launcher.begin_command();
  const bool launched = program != best->words.end();
  for (auto word = best->words.begin(); launched && word != program; ++word) launcher.add(*word);
  ArgumentBuilder arguments(source, diagnostics);
  for (auto word = launched ? program : best->words.begin(); word != best->words.end(); ++word) {
    arguments.add(*word);
  }
  return MegatronArguments{launcher.take(), arguments.take()};
}

}  // namespace nqd::planner
