"""From what the sections measured to the table of targets and the evidence document."""

import dataclasses
import datetime
import json
import pathlib

# result: pass; fail; incomplete: nothing went wrong, but the budget was too small for the target's
# count; skipped: it cannot run here, or was not asked for.
RESULTS = ("pass", "fail", "incomplete", "skipped")


@dataclasses.dataclass
class Verdict:
    section: str
    target: str
    result: str
    measured: str
    seconds: float = 0
    figures: dict = dataclasses.field(default_factory=dict)
    failures: list = dataclasses.field(default_factory=list)


def now_utc():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def of_count(count, wanted, failures):
    """Of a target that asks for so many trials without a failure."""
    if failures:
        return "fail"
    return "pass" if count >= wanted else "incomplete"


def table(verdicts):
    width = max(len(one.section) for one in verdicts)
    lines = []
    for one in verdicts:
        lines.append(f"{one.section:<{width}}  {one.result:<10}  {one.measured}")
        lines.append(f"{'':<{width}}  {'':<10}  target: {one.target}")
        lines += [f"{'':<{width}}  failure: {text}" for text in one.failures]
    return "\n".join(lines)


def markdown(verdicts):
    lines = ["| section | target | measured | result |", "|---|---|---|---|"]
    lines += [f"| {one.section} | {one.target} | {one.measured} | {one.result} |" for one in verdicts]
    return "\n".join(lines) + "\n"


def file_system_of(path):
    """"ext4 on /dev/vda": of the mount that holds the path."""
    best = ""
    kind = "unknown"
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        device, where, name = line.split()[:3]
        inside = str(path) == where or str(path).startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best):
            best, kind = where, f"{name} on {device}"
    return kind


def document(tools, argv, started_at, budget_s, seed, verdicts):
    """Evidence of kind `torture`: the envelope of `nqd doctor`, which says what this machine is."""
    envelope = {name: value for name, value in tools.doctor.items() if name not in ("checks", "ok")}
    envelope.update(kind="torture", argv=argv, started_at=started_at, ended_at=now_utc())
    envelope["budget_s"] = budget_s
    envelope["seed"] = seed
    envelope["scratch"] = sorted({file_system_of(path) for path in (tools.work, tools.fast)})
    envelope["sections"] = [dataclasses.asdict(one) for one in verdicts]
    envelope["ok"] = (any(one.result != "skipped" for one in verdicts)
                      and all(one.result != "fail" for one in verdicts))
    return envelope


def write(folder, evidence, verdicts):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "torture.json").write_text(json.dumps(evidence, indent=1) + "\n")
    (folder / "torture.md").write_text(markdown(verdicts))
