"""What a power cut may leave: the operations of saves replayed up to each of them, with writes and
renames that no sync covers done, lost or torn (tests/engine/checkpoint)."""

import re

from harness import Failure, Unavailable

TARGET = 2000
PROGRAMS = {"nqd_checkpoint_tests": "one folder", "nqd_tier_tests": "two folders"}


def run(tools, budget, seed):
    states, failures = {}, []
    for program, what in PROGRAMS.items():
        path = tools.nqd.parents[1] / "tests/engine/checkpoint" / program
        if not path.exists():
            raise Unavailable(f"{path} does not exist: build nqd with its tests (NQD_BUILD_TESTS=ON)")
        done = tools.run(path, "--test-case=every prefix of the operations*", timeout=600)
        if done.code != 0:
            failures.append(f"{what}: {done.out[-1000:]}")
        found = re.search(r"(\d+) states of ", done.out + done.err)
        if found is None:
            raise Failure(f"{program} does not say how many states it tried")
        states[what] = int(found[1])
    return {"states": states, "failures": failures}
