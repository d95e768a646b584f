#!/usr/bin/python3
"""The schemas accept what nqd writes and nothing that is damaged: schema_test.py DOCUMENTS SCHEMAS

DOCUMENTS is the folder that nqd_reports_tests wrote. Every member of every object is removed in
turn, an unknown member is added to every object, and every value is replaced by one of another type:
each such document must be refused, unless the place is free by design.
"""

import copy
import json
import os
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    # Another interpreter than the distribution's does not see the distribution's packages.
    if sys.executable != "/usr/bin/python3":
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    print("skipped: install python3-jsonschema")
    sys.exit(77)

# Free by design: maps with open keys, and the plan, which has a schema of its own.
OPEN_OBJECTS = {"libraries", "environment", "definitions", "predicted_plan", "categories"}
# Absent where they do not apply: a run without a fault, curves that are priced by their pieces.
# Of documents before there were any, or of what was not measured.
OPTIONAL = {"fault", "break_bytes", "held_out_fraction", "points", "hold_out", "skipped",
            "skipped_steps", "noise_scale_sequences", "resumed", "checkpoints", "stopped",
            "roll_backs", "stragglers", "synthetic", "durable_s", "host_s", "step_graph",
            "uncounted_memory", "attention_library"}

EVIDENCE = ["bench.json", "bench-odd.json", "bench-bare.json", "train.json", "train-fault.json",
            "train-empty.json", "train-nan.json", "calibration.json", "doctor.json"]


def places(value, path=()):
    """Every place in the document; of an array only the first item."""
    yield path
    if isinstance(value, dict):
        for key, member in value.items():
            if path and path[-1] in OPEN_OBJECTS:
                continue
            yield from places(member, path + (key,))
    elif isinstance(value, list) and value:
        yield from places(value[0], path + (0,))


def at(document, path):
    for step in path:
        document = document[step]
    return document


def damaged(document):
    """(what was done, the damaged document) for every damage that must be noticed."""
    for path in places(document):
        value = at(document, path)
        if isinstance(value, dict) and not (path and path[-1] in OPEN_OBJECTS):
            copy_ = copy.deepcopy(document)
            at(copy_, path)["unknown_member"] = 1
            yield f"added {path} unknown_member", copy_
        if not path:
            continue
        parent, name = path[:-1], path[-1]
        if isinstance(name, str) and name not in OPTIONAL:
            copy_ = copy.deepcopy(document)
            del at(copy_, parent)[name]
            yield f"removed {path}", copy_
        copy_ = copy.deepcopy(document)
        at(copy_, parent)[name] = {"of": "no type that fits"} if not isinstance(value, dict) else []
        yield f"retyped {path}", copy_


def shortened(value):
    """The same document with at most two items in each array: the rest is more of the same."""
    if isinstance(value, dict):
        return {key: shortened(member) for key, member in value.items()}
    return [shortened(item) for item in value[:2]] if isinstance(value, list) else value


def check(document, name, validator):
    errors = [error.message for error in validator.iter_errors(document)]
    if errors:
        return [f"{name} is refused: {errors[0][:200]}"], 0
    damages = list(damaged(shortened(document)))
    return [f"{name} accepted though {what}" for what, copy_ in damages
            if validator.is_valid(copy_)], len(damages)


def main(documents, schemas):
    load = lambda path: json.loads(path.read_text(encoding="utf-8"))
    validators = {}
    for name in ("evidence", "mesh-plan"):
        schema = load(schemas / f"{name}.schema.json")
        jsonschema.Draft7Validator.check_schema(schema)
        validators[name] = jsonschema.Draft7Validator(schema)
    cases = [(load(documents / name), name, "evidence") for name in EVIDENCE]
    cases.append((load(documents / "mesh-plan.json"), "mesh-plan.json", "mesh-plan"))
    plan = load(documents / "train.json")["predicted_plan"]
    cases.append(({"schema_version": 1,
                   "configs": [{"path": "x", "valid": True, "diagnostics": [], **plan}]},
                  "predicted_plan of train.json", "mesh-plan"))
    failures, tried = [], 0
    for document, name, schema in cases:
        found, count = check(document, name, validators[schema])
        failures += found
        tried += count
    print("\n".join(failures) if failures else f"{len(cases)} accepted, {tried} damaged refused")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
