"""The record of a run: gpu_check.json, gpu_check.md, and the summary on the terminal."""

import dataclasses
import datetime
import json
import subprocess

from box import ROOT
from targets import MISSED, NOT_MEASURED, PASS

PACKED = ROOT / "packed.json"  # of a carried build, in the place of a repository


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def source():
    """What was built, as `git describe` says it here or said it where the build was packed."""
    if PACKED.exists():
        return json.loads(PACKED.read_text(encoding="utf-8"))["git_describe"]
    return describe()


def describe():
    done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--tags"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or None


def document(box, options, argv, started_at, ended_at, doctor, checks, verdicts):
    return {"device": box.device, "gpu": box.gpu or None, "argv": argv, "started_at": started_at, "ended_at": ended_at,
            "budget_s": options.budget, "used_s": round(box.clock() - box.begin, 1), "sections": options.sections,
            "git_describe": source(), "nqd": doctor.get("tool"), "checks": [dataclasses.asdict(one) for one in checks],
            "measured": box.measured, "targets": [dataclasses.asdict(one) for one in verdicts],
            "ok": not failed(checks)}


def failed(checks):
    return [one for one in checks if one.result == "fail"]


def count(found, result):
    return sum(one.result == result for one in found)


def summary(checks, verdicts, where):
    lines = [f"{count(checks, 'pass')} checks passed, {len(failed(checks))} failed, "
             f"{count(checks, 'skipped')} skipped"]
    lines += [f"FAILED   {one.name}: {one.seen}" for one in failed(checks)]
    lines += [f"targets: {count(verdicts, PASS)} met, {count(verdicts, MISSED)} missed, "
              f"{count(verdicts, NOT_MEASURED)} not measured; documents in {where}"]
    return "\n".join(lines)


def markdown(checks, verdicts):
    lines = ["| check | result | seen |", "|---|---|---|"]
    lines += [f"| {one.name} | {one.result} | {cell(one.seen)} |" for one in checks]
    lines += ["", "| target | measured | result |", "|---|---|---|"]
    lines += [f"| {one.target} | {cell(one.why) if one.measured is None else f'{one.measured:.3g}'} | {one.result} |"
              for one in verdicts]
    return "\n".join(lines) + "\n"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def write(folder, record, checks, verdicts):
    (folder / "gpu_check.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / "gpu_check.md").write_text(markdown(checks, verdicts), encoding="utf-8")
