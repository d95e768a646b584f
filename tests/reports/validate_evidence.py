#!/usr/bin/python3
"""Validates documents against a JSON Schema: validate_evidence.py FILE... SCHEMA

Prints each violation with its place and exits 1 when there is any. Exits 77 (skipped) when the
package python3-jsonschema is not installed.
"""

import json
import os
import sys

try:
    import jsonschema
except ImportError:
    # Another interpreter than the distribution's does not see the distribution's packages.
    if sys.executable != "/usr/bin/python3":
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    print("skipped: install python3-jsonschema")
    sys.exit(77)


def reject_constant(text):
    raise ValueError(f"{text} is not JSON")


def place(error):
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}"
                   for step in error.absolute_path).lstrip(".") or "(document)"


def leaves(error):
    """The innermost violations: what a person has to mend."""
    if not error.context:
        return [error]
    return [leaf for inner in error.context for leaf in leaves(inner)]


def violations(path, validator):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file, parse_constant=reject_constant)
    except (OSError, ValueError) as error:
        return [f"{path}: {error}"]
    return [f"{path}: {place(leaf)}: {leaf.message[:300]}"
            for error in validator.iter_errors(document) for leaf in leaves(error)]


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    *files, schema_path = arguments
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    found = [line for path in files for line in violations(path, validator)]
    print("\n".join(found) if found else f"{len(files)} valid against {schema_path}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
