#include <array>

#include "base/codes/tables.h"

namespace nqd::codes {
namespace {

constexpr std::array kTable = {
    // 1000: YAML and typed values
    CodeInfo{"NQD1001", "config file cannot be read",
             "The path given does not name a readable file. Check the spelling and permissions."},
    CodeInfo{"NQD1002", "YAML syntax",
             "The text is not YAML. The place is where the parser gave up, which may be a line "
             "after the mistake. Keys of one section start in the same column, each is "
             "followed by a colon and a space, and a value that itself contains a colon is "
             "quoted."},
    CodeInfo{"NQD1003", "empty config",
             "The file holds nothing but comments or blank lines. The smallest config is "
             "`model: {preset: gpt2-124m}`."},
    CodeInfo{"NQD1004", "not a mapping",
             "A config file, and each section in it, is a mapping of `key: value` lines. A "
             "single value or a list stands where a mapping belongs; for a preset write "
             "`model: {preset: NAME}`."},
    CodeInfo{"NQD1005", "unknown section",
             "The sections of a config are model, cluster, parallel, train and data. Anything "
             "else is refused rather than ignored, since an ignored setting is a run that "
             "nobody asked for."},
    CodeInfo{"NQD1006", "unknown key",
             "The section has no such key. Unknown keys are refused rather than ignored, since "
             "a misspelt setting would silently take its default. `nqd schema reference` lists "
             "every key."},
    CodeInfo{"NQD1007", "duplicate key",
             "A key is given twice in one section. YAML readers silently keep one of the two, "
             "and not all the same one. Keep the value that you mean."},
    CodeInfo{"NQD1008", "wrong type",
             "The value has another type than the key needs. Quotes make a text: \"8\" is not "
             "the number 8."},
    CodeInfo{"NQD1009", "value out of range",
             "The value has the right type but lies outside what the key accepts. The message "
             "shows the range and the nearest legal value."},
    CodeInfo{"NQD1010", "not one of the choices",
             "The key accepts a fixed list of words, which the message shows."},
    CodeInfo{"NQD1011", "calibration file not usable",
             "The file named by `--cluster` or `cluster: {calibration: FILE}` is unreadable or "
             "is not what `nqd calibrate` writes. It is read strictly, since a rate that is "
             "wrong by a unit makes every prediction wrong. Paths are relative to the folder "
             "in which nqd runs."},
    CodeInfo{"NQD1012", "unknown preset",
             "There is no shipped preset of that name. `nqd schema reference` lists them; "
             "without a preset, write the values themselves."},
    CodeInfo{"NQD1013", "not a quantity",
             "A size, bandwidth, rate or duration is a plain number in the base unit or a "
             "number with a unit, such as 25 MB (10^6), 64 MiB (2^20), 450 GB/s, 400 Gb/s "
             "(bits), 989 TFLOP/s or 3 us. Letter case matters: GB are bytes, Gb are bits."},
    CodeInfo{"NQD1014", "required key missing",
             "The model cannot be planned without the keys that the message names. Add them or "
             "start from a preset."},
    CodeInfo{"NQD1015", "malformed override",
             "`--set` takes KEY=VALUE with the dotted path of a key, such as `--set "
             "train.steps=50`."},
    CodeInfo{"NQD1016", "unknown key in an override",
             "`--set` names a key that does not exist. Use its full dotted path, such as "
             "parallel.tp; `nqd schema reference` lists every key."},
    CodeInfo{"NQD1017", "number not finite",
             "Infinity and NaN are no settings. A rate or size that is not known is left out."},
    CodeInfo{"NQD1018", "indented with tabs",
             "YAML does not allow tabs in indentation, since their width is not defined. "
             "Indent with spaces."},
    CodeInfo{"NQD1019", "YAML feature not supported",
             "Anchors (&), aliases (*), merge keys (<<) and tags (!) are refused: they make a "
             "value come from somewhere else than the line on which it is read. Presets and "
             "`--set` do their work with a named origin."},
    CodeInfo{"NQD1020", "model without preset or shape",
             "The model section gives neither a preset nor a shape. A GPT-like model needs "
             "layers, hidden, heads, vocab and sequence; a model of family state needs "
             "parameters."},
    CodeInfo{"NQD1021", "key does not apply to this model family",
             "A gpt model is given by its shape and its parameters are counted; a state model "
             "is known by its parameter count alone, so a shape would be ignored. Remove the "
             "key or change the family."},
    CodeInfo{"NQD1022", "YAML 1.1 boolean",
             "yes, no, on and off are booleans to some YAML readers and text to others. nqd "
             "accepts true and false alone."},
    CodeInfo{"NQD1023", "integer written as a float",
             "1e3 and 8.0 are floating-point numbers in YAML. Write the integer with all its "
             "digits."},
    CodeInfo{"NQD1024", "config too large or too deep",
             "A config is at most 1 MiB and nested at most 16 deep. The file is probably not a "
             "config."},
    CodeInfo{"NQD1025", "more than one YAML document",
             "A `---` line starts a second document, which nqd would have to ignore. Use one "
             "file a config."},
    CodeInfo{"NQD1026", "not UTF-8 text",
             "The file holds bytes that are not UTF-8 text: it may be a binary file or be "
             "saved in another encoding."},
    CodeInfo{"NQD1027", "key belongs in another section",
             "The section has no such key, but another one has. The hint says which."},
    CodeInfo{"NQD1028", "no model",
             "Nothing can be planned without a model section. The smallest is `model: {preset: "
             "gpt2-124m}`."},
    CodeInfo{"NQD1029", "key without a value",
             "The key is followed by nothing, or by null. Write a value, or remove the key to "
             "take its default."},
    CodeInfo{"NQD1030", "not an axis of a plan",
             "`nqd search --fix` and `--why` take a list such as tp=8,pp=4,engine=zero1. Its keys "
             "are those of a plan in the JSON document, its values those of a config file."},
    CodeInfo{"NQD1031", "findings left out",
             "Only the first 50 findings of a file are shown. Mend those, and run the command "
             "again."},
    CodeInfo{"NQD1032", "no such code",
             "`nqd explain` knows the codes that nqd prints, such as NQD1203. Without a code "
             "it lists them all."},
    CodeInfo{"NQD1033", "keys of the model disagree",
             "Each key is possible, but not with the others: more experts a token than there are, "
             "half of the keys of multi-head latent attention, patches that do not tile a picture. "
             "The message says which."},
    CodeInfo{"NQD1034", "not a sweep",
             "`nqd search --sweep` takes a key of the config file and its values, such as "
             "nodes=8,16,32 or model.sequence=8192,32768. A key without dots stands for the one "
             "path that ends in it; where several do, write the whole path."},
    CodeInfo{"NQD1090", "figures that do not go together",
             "Each flag of the calculation is right by itself, and together they describe nothing: "
             "ranks that do not fill nodes, a cost without a price. The message says which."},
};

}  // namespace

std::span<const CodeInfo> config_codes() { return kTable; }

}  // namespace nqd::codes
