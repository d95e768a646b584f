"""Several hosts on one machine: network namespaces behind a bridge, with limited rates.

Each host has its own host name, network, /dev/shm, process numbers and hosts file, so that MPI and nqd
take it for a machine of its own. mpirun runs on a head node on the same bridge and starts its daemons
through an agent that enters the namespaces. Nothing has a name in the file system or in /run/netns: when
the process that made the bed ends, however it ends, its pipes close, and the kernel removes everything
with the last process inside.

    with Bed(["alpha", "beta"], rate="400mbit") as bed:
        done = bed.mpirun("alpha:2,beta:2", ["nqd", "bench", "all_reduce"]).finish()
        bed.strike("beta", pid, signal.SIGSTOP)
        bed.cut("beta")

Needs root, or unprivileged user namespaces (`become_root`), with iproute2 and util-linux.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SKIPPED = 77
TOOLS = ("ip", "tc", "unshare", "nsenter", "setpriv", "mount")
HEAD = "head"
# What keeps a host in being until its pipe closes: NAME FOLDER. With a file system of its own on
# /dev/shm shared memory ends at the host. The folder goes with the first host that goes.
ANCHOR = """set -e
hostname "$0"
mount -t tmpfs -o size=512m tmpfs /dev/shm
mount --bind "$1/hosts" /etc/hosts
ip link set lo up
echo ready
cat
rm -rf "$1"
"""
AGENT = """#!/bin/sh
# Stands in for ssh: HOST COMMAND...
host=$1
shift
pid=$(cat "{folder}/$host.pid")
exec nsenter --target "$pid" --net --uts --mount --pid --wd=/ -- sh -c "$*"
"""


class Unavailable(Exception):
    """This machine does not let us make hosts; the text says why."""


def become_root():
    """Makes this process root of a user namespace when it is not root. Does not return then."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        skip("not installed: " + ", ".join(missing))
    if os.geteuid() == 0:
        return
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run(command + ["true"], capture_output=True, check=False).returncode != 0:
        skip("neither root nor unprivileged user namespaces")
    os.execvp(command[0], command + [sys.executable] + sys.argv)


def skip(reason):
    print("SKIPPED: " + reason, file=sys.stderr)
    sys.exit(SKIPPED)


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"`{shlex.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


class Job:
    """An mpirun that is running."""

    def __init__(self, command, environment, timeout_s):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors,
                                        stdin=subprocess.DEVNULL, text=True, env=environment)
        self.expired = False
        self.guard = threading.Timer(timeout_s, self._expire)
        self.guard.start()

    def _expire(self):
        self.expired = True
        self.process.kill()

    def readline(self):
        return self.process.stdout.readline()

    def finish(self):
        """Exit code, stdout that was not read, stderr. A job that lasted too long is killed: the code
        is then -9."""
        out = self.process.communicate()[0]
        self.guard.cancel()
        with self.errors:
            self.errors.seek(0)
            return self.process.returncode, out, self.errors.read()


class Bed:
    """Context manager. `rate` limits what every host sends and what it receives, as tc writes it;
    `mpiexec` is Open MPI's."""

    def __init__(self, hosts, rate=None, mpiexec="mpirun"):
        self.hosts = list(hosts)
        self.mpiexec = mpiexec
        self.rate = rate
        self.folder = None
        self.anchors = {}  # Popen by host
        self.pids = {}     # of a process inside, as seen from here

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="nqd-bed-")
        try:
            self._write_files()
            for name in [HEAD] + self.hosts:
                self._start(name)
            self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for anchor in self.anchors.values():
            anchor.stdin.close()
        for anchor in self.anchors.values():
            try:
                anchor.wait(timeout=5)
            except subprocess.TimeoutExpired:
                anchor.kill()
                anchor.wait()
            anchor.stdout.close()
            anchor.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, name):
        return "10.73.0." + str(1 + ([HEAD] + self.hosts).index(name))

    def _write_files(self):
        with open(os.path.join(self.folder, "hosts"), "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")
            for name in [HEAD] + self.hosts:
                file.write(f"{self.address(name)} {name}\n")
        self.agent = os.path.join(self.folder, "agent")
        with open(self.agent, "w", encoding="ascii") as file:
            file.write(AGENT.format(folder=self.folder))
        os.chmod(self.agent, 0o755)

    def _start(self, name):
        # The head node keeps the process numbers of this machine: its agent has to find the hosts.
        numbers = [] if name == HEAD else ["--pid", "--fork", "--kill-child", "--mount-proc"]
        anchor = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount"] + numbers +
            ["sh", "-c", ANCHOR, name, self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.anchors[name] = anchor
        if anchor.stdout.readline() != "ready\n":
            anchor.stdin.close()
            raise Unavailable(f"no namespaces for {name}: {anchor.stderr.read().strip()}")
        pid = anchor.pid
        if numbers:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                pid = int(file.read().split()[0])
        self.pids[name] = pid
        with open(os.path.join(self.folder, name + ".pid"), "w", encoding="ascii") as file:
            file.write(str(pid))

    def _connect(self):
        self.inside(HEAD, "ip", "link", "add", "bridge", "type", "bridge")
        self.inside(HEAD, "ip", "addr", "add", self.address(HEAD) + "/24", "dev", "bridge")
        self.inside(HEAD, "ip", "link", "set", "bridge", "up")
        for name in self.hosts:
            port = self._port(name)
            self.inside(HEAD, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0",
                        "netns", str(self.pids[name]))
            self.inside(HEAD, "ip", "link", "set", port, "master", "bridge", "up")
            self.inside(name, "ip", "addr", "add", self.address(name) + "/24", "dev", "eth0")
            self.inside(name, "ip", "link", "set", "eth0", "up")
            if self.rate:
                self.limit(name, self.rate)

    def _port(self, name):
        return "port" + str(self.hosts.index(name))

    def limit(self, name, rate):
        """Slows what a host without a rate sends and what it receives."""
        self._limit(name, "eth0", rate)
        self._limit(HEAD, self._port(name), rate)

    def _limit(self, name, device, rate):
        # A burst holds what a timer tick of 4 ms lets through at 500 Mbit/s.
        self.inside(name, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate,
                    "burst", "256kb", "latency", "100ms")

    def _enter(self, name):
        numbers = [] if name == HEAD else ["--pid"]
        return ["nsenter", "--target", str(self.pids[name]), "--net", "--uts", "--mount", "--wd=/",
                *numbers, "--"]

    def inside(self, name, *command):
        """Runs a command on a host; its stdout. Unavailable when it fails."""
        return _run(self._enter(name) + list(command))

    def mpirun_words(self, placement):
        """The command on the head node that starts ranks on "alpha:2,beta:2", which fill one host after
        the other unless later flags say otherwise."""
        return [self.mpiexec, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--map-by",
                "slot", "--mca", "plm_rsh_agent", self.agent, "--mca", "plm_rsh_no_tree_spawn", "1",
                "--mca", "orte_tmpdir_base", "/dev/shm", "--mca", "pml", "ob1", "--mca", "btl",
                "tcp,vader,self", "--host", placement]

    def start(self, command, timeout_s=60, environment=None):
        """Starts a command on the head node, as a Job."""
        return Job(["setpriv", "--pdeathsig", "KILL"] + self._enter(HEAD) + list(command),
                   environment or dict(os.environ), timeout_s)

    def mpirun(self, placement, program, *flags, timeout_s=60, environment=None):
        """Starts a Job on "alpha:2,beta:2"."""
        return self.start(self.mpirun_words(placement) + [*flags, *program], timeout_s, environment)

    def strike(self, name, pid, number):
        """Sends a signal to a process, by its number on that host."""
        self.inside(name, "kill", "-" + str(int(number)), str(pid))

    def cut(self, name):
        """Pulls the cable of a host."""
        self.inside(HEAD, "ip", "link", "set", self._port(name), "down")

    def bytes_sent(self, name):
        """What a host has put on its cable, headers included."""
        shown = self.inside(name, "ip", "-j", "-s", "link", "show", "dev", "eth0")
        return json.loads(shown)[0]["stats64"]["tx"]["bytes"]
