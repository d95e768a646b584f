"""PyTorch and llm.c training the same shapes on the same GPU, in turns with nqd."""

import json
import pathlib
import queue
import re
import subprocess
import threading

from box import ROOT, first_error

PROGRAM = ROOT / "tests/bench/peers/torch_gpu.py"
LLMC_STEP = re.compile(r"^step\s+\d+/\d+ .*\| ([\d.]+) ms \|", re.MULTILINE)


class Unavailable(Exception):
    """Why a peer cannot be measured, or not any more."""


class Torch:
    """A process that holds one model at a time, so that what it compiles is compiled once."""

    def __init__(self, python, device, log):
        self.why = self.look(python, device)
        if self.why:
            return
        self.replies = queue.Queue()
        self.log = log.open("w", encoding="utf-8")
        self.process = subprocess.Popen([python, str(PROGRAM), "--device", device], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        threading.Thread(target=self.listen, daemon=True).start()

    @staticmethod
    def look(python, device):
        """Why this Python cannot be a peer on this device; "" when it can."""
        if not python:
            return "no --python was given that has PyTorch"
        try:
            done = subprocess.run([python, "-c", "import torch; print(torch.cuda.is_available())"], text=True,
                                  capture_output=True, check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{python}: {error}"
        if done.returncode != 0:
            return f"{python} has no PyTorch: {done.stderr.strip()[-80:]}"
        if device == "cuda" and done.stdout.strip() != "True":
            return f"PyTorch of {python} sees no GPU"
        return ""

    def listen(self):
        for line in self.process.stdout:
            self.replies.put(line)
        self.replies.put("")

    def tell(self, **command):
        """Sends a command; its answer comes with the next `hear`."""
        if self.why:
            raise Unavailable(self.why)
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            self.give_up(f"PyTorch ended: {error}")

    def hear(self, limit):
        if self.why:
            raise Unavailable(self.why)
        try:
            line = self.replies.get(timeout=max(limit, 0.1))
        except queue.Empty:
            self.give_up(f"PyTorch did not answer within {limit:.0f} s")
        if not line:
            self.give_up(f"PyTorch ended with {self.process.wait()}: see torch.log")
        answer = json.loads(line)
        if "error" in answer:
            raise Unavailable("PyTorch: " + answer["error"])
        return answer

    def give_up(self, why):
        self.why = why
        self.close()
        raise Unavailable(why)

    def close(self):
        process = getattr(self, "process", None)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def llmc_program(folder):
    """(path, "") or (None, why)."""
    if folder is None:
        return None, "no --llmc FOLDER was given"
    path = pathlib.Path(folder) / "train_gpt2cu"
    if not path.exists():
        return None, f"{path} does not exist: `make train_gpt2cu` builds it"
    return path, ""


def llmc_steps(text):
    """Seconds of each step, from what train_gpt2cu prints."""
    return [float(one) / 1e3 for one in LLMC_STEP.findall(text)]


def run_llmc(box, program, depth, batch, sequence, steps, data):
    """Seconds of each step. The flags: no recomputation, no evaluation behind the first, no samples."""
    meeting = box.output / "llmc"
    meeting.mkdir(exist_ok=True)
    code, text = box.run(program, "-i", data, "-j", data, "-e", f"d{depth}", "-b", batch, "-t", sequence,
                         "-d", batch * sequence, "-x", steps, "-v", 1000000, "-m", 1, "-s", 0, "-h", 0, "-r", 0,
                         "-pi", "fs", "-pf", meeting, cwd=program.parent)
    (box.output / "llmc.txt").write_text(text, encoding="utf-8")
    found = llmc_steps(text)
    if code != 0 or len(found) < steps:
        raise Unavailable(f"train_gpt2cu ended with {code} after {len(found)} of {steps} steps: {first_error(text)}")
    return found
