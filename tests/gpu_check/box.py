"""What the sections of scripts/gpu_check share: where programs and libraries are, how much time is left,
and runs of nqd that end with a document or with the reason why there is none."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What nqd opens when it first needs it; cuBLASLt of the toolkit that built it.
OPENED_LIBRARIES = ("libnccl.so.2", "libcublasLt.so.13", "libcublasLt.so.12", "libcudnn.so.9")


@dataclasses.dataclass
class Check:
    """One line of the report. result: pass, fail (the box or nqd is at fault), skipped (it cannot run
    here, or its time was used up)."""
    name: str
    result: str
    seen: str
    figures: dict = dataclasses.field(default_factory=dict)

    def line(self):
        return f"{self.result:<8} {self.name:<34} {self.seen}"


def skipped(name, why):
    return Check(name, "skipped", why)


NO_TIME = "no time left"


def text_of(stream):
    """What a program that took too long had said: bytes or text, by the version of Python."""
    if stream is None:
        return ""
    return stream if isinstance(stream, str) else stream.decode(errors="replace")


def first_error(text):
    """The line in which nqd says what is wrong, or the last lines of another program."""
    at = text.find("nqd: error")
    return " ".join((text[at:] if at >= 0 else text[-300:]).split())[:300]


def library_folders(python, known):
    """Folders of libraries that programs open by name and the loader does not find: those of the CUDA
    toolkit, and of Python packages that bring them. `known`: what `ldconfig -p` prints."""
    wanted = [name for name in OPENED_LIBRARIES if name not in known]
    places = [pathlib.Path("/usr/local/cuda/lib64")]
    if python:
        done = subprocess.run([python, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True,
                              text=True, check=False, timeout=30)
        for site in filter(None, done.stdout.splitlines()):
            places += sorted(pathlib.Path(site).glob("nvidia/*/lib"))
    return [str(place) for place in places if any((place / name).exists() for name in wanted)]


def loader_knows():
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        return subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False, timeout=30).stdout
    except OSError:
        return ""


class Box:
    def __init__(self, options, clock=time.monotonic):
        self.build, self.device, self.output = options.build, options.device, options.output
        self.nqd = options.build / "cli/nqd"
        self.clock = clock
        self.begin = clock()
        self.end = self.section_end = self.begin + options.budget
        self.folders = library_folders(options.python, loader_knows())
        self.gpu, self.gpus = "", 0  # the driver's name of the first, and how many
        self.measured = {}           # what targets.py judges

    def open_section(self, share):
        """`share` of the time that is left: what a section does not use goes to those behind it."""
        now = self.clock()
        self.section_end = now + max(0.0, self.end - now) * share

    def left(self):
        return self.section_end - self.clock()

    def environment(self, extra=None):
        environment = dict(os.environ, **(extra or {}))
        known = [folder for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
        if folders := known + self.folders:
            environment["LD_LIBRARY_PATH"] = ":".join(folders)
        return environment

    def run(self, *words, limit=120.0, extra=None, cwd=ROOT):
        """(exit code, text); 124 where it took longer than `limit` or the section's time."""
        try:
            done = subprocess.run([str(word) for word in words], cwd=cwd, text=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  env=self.environment(extra), timeout=max(1.0, min(limit, self.left())))
        except subprocess.TimeoutExpired as late:
            return 124, text_of(late.stdout)
        except OSError as error:
            return 127, str(error)
        return done.returncode, done.stdout

    def document(self, name, *words, limit=120.0, extra=None):
        """(document, "") of an nqd command with --output, or (None, why there is none)."""
        path = self.output / name
        path.unlink(missing_ok=True)
        code, text = self.run(self.nqd, *words, "--output", path, limit=limit, extra=extra)
        return read_document(path, code, text)

    def train_words(self, name, config, device, sets, *more):
        folder = self.output / "runs" / re.sub(r"[^\w.-]+", "-", name)
        shutil.rmtree(folder, ignore_errors=True)
        ranks = ranks_of(sets)
        words = [self.nqd, "train", config, "--device", device, "--output-dir", folder, "--ranks", ranks, *more]
        for one in [*sets, f"cluster.gpus_per_node={ranks}"]:
            words += ["--set", one]
        return folder, words

    def train(self, name, config, device, sets, *more, limit=120.0, extra=None):
        """(evidence, "") of a training run, or (None, what went wrong)."""
        folder, words = self.train_words(name, config, device, sets, *more)
        code, text = self.run(*words, limit=limit, extra=extra)
        return read_document(folder / "evidence.json", code, text)

    def offers(self, flag, *command):
        """Whether this nqd's command has the flag."""
        _, text = self.run(self.nqd, *command, "--help", limit=20)
        return re.search(re.escape(flag) + r"\b", text) is not None


def read_document(path, code, text):
    """Exit code 1 is an answer: the document says what is wrong."""
    if code == 124:
        return None, "it took too long: " + first_error(text)
    try:
        if code in (0, 1):
            return json.loads(path.read_text(encoding="utf-8")), ""
    except (OSError, ValueError) as error:
        return None, f"exit code {code}, {error}: {first_error(text)}"
    return None, f"exit code {code}: {first_error(text)}"


def ranks_of(sets):
    ranks = 1
    for one in sets:
        key, value = one.split("=", 1)
        if key in ("parallel.dp", "parallel.tp", "parallel.pp"):
            ranks *= int(value)
    return ranks
