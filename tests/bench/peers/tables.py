"""Tables of a record that run.py measured, as Markdown: times, ratios, and the targets."""

import statistics

BEGIN, END = "<!-- peers: begin -->\n", "<!-- peers: end -->\n"
KIB, MIB = 1 << 10, 1 << 20
LABELS = {
    "openmpi": "Open MPI", "openmpi_tuned": "Open MPI, malloc tuned", "mpich": "MPICH", "gloo": "Gloo",
    "registered": "direct, registered", "private": "direct, private", "ring": "ring",
    "openmpi_in_place": "Open MPI in place", "registered_in_place": "registered in place",
    "private_in_place": "private in place", "limit": "limit of the memory",
}
ORDER = list(LABELS)

# What, ranks, collective, nqd's series, the peer's, sizes from and to, and the least ratio of the
# median over sizes and of each size.
TARGETS = (
    ("all_reduce, registered", 2, "all_reduce", "registered", "openmpi", 64 * KIB, 256 * MIB, 5, 4),
    ("all_reduce, registered", 2, "all_reduce", "registered", "openmpi_tuned", 64 * KIB, 256 * MIB, None, 2.5),
    ("all_reduce, registered", 2, "all_reduce", "registered", "limit", 64 * KIB, 256 * MIB, None, 0.8),
    ("all_reduce, registered, latency", 2, "all_reduce", "registered", "openmpi", KIB, 4 * KIB, None, 2),
    ("all_reduce, private", 2, "all_reduce", "private", "openmpi", MIB, 4 * MIB, None, 1.5),
    ("all_reduce, private", 2, "all_reduce", "private", "mpich", MIB, 4 * MIB, None, 2),
    ("all_reduce, private", 2, "all_reduce", "private", "openmpi", 16 * MIB, 256 * MIB, None, 2.5),
    ("all_reduce, private", 2, "all_reduce", "private", "mpich", 16 * MIB, 256 * MIB, None, 2.5),
    ("all_reduce, private", 2, "all_reduce", "private", "gloo", KIB, 256 * MIB, None, 2),
    ("reduce_scatter, registered", 2, "reduce_scatter", "registered", "openmpi", MIB, 256 * MIB, None, 8),
    ("reduce_scatter, registered", 2, "reduce_scatter", "registered", "mpich", MIB, 256 * MIB, None, 2),
    ("all_gather, registered", 2, "all_gather", "registered", "openmpi", MIB, 16 * MIB, None, 1.5),
    ("all_gather, registered, in place", 2, "all_gather", "registered_in_place", "openmpi_in_place",
     64 * MIB, 256 * MIB, None, 1.5),
    ("all_reduce, registered, 4 ranks", 4, "all_reduce", "registered", "openmpi", 16 * KIB, 256 * MIB, None, 4),
)


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def time_text(seconds):
    if seconds < 1e-4:
        return f"{seconds * 1e6:.2f} µs"
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-2 else f"{seconds * 1e3:.1f} ms"


class Record:
    def __init__(self, record):
        self.times = {(row["ranks"], row["collective"], row["series"], row["bytes"]):
                      [repetition["p50_s"] for repetition in row["repetitions"]]
                      for row in record["rows"]}

    def sizes(self, ranks, collective):
        return sorted({key[3] for key in self.times if key[:2] == (ranks, collective)})

    def series(self, ranks, collective):
        return sorted({key[2] for key in self.times if key[:2] == (ranks, collective)},
                      key=ORDER.index)

    def time(self, *key):
        return statistics.median(self.times[key])

    def ratio(self, ranks, collective, own, peer, size):
        """How many times faster `own` is; none where one was not measured."""
        peers = self.times.get((ranks, collective, peer, size))
        owns = self.times.get((ranks, collective, own, size))
        if not peers or not owns:
            return None
        return statistics.median(a / b for a, b in zip(peers, owns))


def time_table(record, ranks, collective):
    series = record.series(ranks, collective)
    lines = [f"{collective}, {ranks} ranks:", "",
             "| size | " + " | ".join(LABELS[name] for name in series) + " |",
             "|---|" + "---|" * len(series)]
    for size in record.sizes(ranks, collective):
        cells = [time_text(record.time(ranks, collective, name, size)) for name in series]
        lines.append(f"| {size_text(size)} | " + " | ".join(cells) + " |")
    return lines + [""]


def target_row(record, target):
    what, ranks, collective, own, peer, first, last, least_median, least = target
    ratios = [(record.ratio(ranks, collective, own, peer, size), size)
              for size in record.sizes(ranks, collective) if first <= size <= last]
    ratios = [(ratio, size) for ratio, size in ratios if ratio is not None]
    wanted = f"each ≥ {least}" + (f", median ≥ {least_median}" if least_median else "")
    head = f"| {what} | {LABELS[peer]} | {size_text(first)}–{size_text(last)} | {wanted} | "
    if not ratios:
        return head + "not measured | |"
    median = statistics.median(ratio for ratio, _ in ratios)
    lowest, where = min(ratios)
    attained = lowest >= least and (least_median is None or median >= least_median)
    return head + f"{median:.2f}, least {lowest:.2f} at {size_text(where)} | {'yes' if attained else 'no'} |"


def canonical_lines(repetitions):
    """Canonical ÷ fast, both direct: medians over repetitions of the ratio within one."""
    def times(rows, what):
        return {(row["bytes"], row["contributions"]): row["all_s"] for row in rows if row["what"] == what}

    ratios = {}
    for rows in repetitions:
        fast = times(rows, "fast direct")
        for key, seconds in times(rows, "canonical direct").items():
            ratios.setdefault(key, []).append(seconds / fast[key])
    counts = sorted({key[1] for key in ratios})
    lines = ["Time of a canonical all_reduce ÷ that of a fast one, both direct, with a rank's own additions "
             "of its m contributions (`nqd_canonical_bench`: private buffers, 2 ranks):", "",
             "| size | " + " | ".join(f"m = {count}" for count in counts) + " |",
             "|---|" + "---|" * len(counts)]
    for size in sorted({key[0] for key in ratios}):
        cells = [f"{statistics.median(ratios[size, count]):.2f}" for count in counts]
        lines.append(f"| {size_text(size)} | " + " | ".join(cells) + " |")
    return lines + [""]


def overlap_lines(overlap):
    return ["An asynchronous all_reduce of two ranks beside matrix products "
            f"(`nqd_overlap_bench`: {overlap['what']}):", "",
            "| products on | alone | beside the all_reduce | cost | target ≤ 10 % |", "|---|---|---|---|---|"] + [
                f"| {row['where']} | {row['alone_s'] * 1e3:.2f} ms | {row['beside_s'] * 1e3:.2f} ms | "
                f"{row['cost'] * 100:.1f} % | "
                + (("yes" if row["cost"] <= 0.1 else "no") if row["target"] else "not the target") + " |"
                for row in overlap["rows"]] + [""]


def machine_lines(document):
    host = document["host"]
    return [f"Measured {document['started_at'][:10]} on {host['cpu_model']}, {host['online_cpus']} CPUs, "
            f"in {document['seconds']} s, load {document['load_before']:.2f} before; "
            f"{', '.join(document['packages'])}; float32 sum, warm buffers:", "",
            "```sh", document["command"], "```", ""]


def render(document):
    record = Record(document)
    lines = machine_lines(document)
    lines += ["How many times faster nqd is (median over sizes, and the least):", "",
              "| what | than | sizes | target | ratio | attained |", "|---|---|---|---|---|---|"]
    lines += [target_row(record, target) for target in TARGETS] + [""]
    if document.get("canonical"):
        lines += canonical_lines(document["canonical"])
    if document.get("overlap"):
        lines += overlap_lines(document["overlap"])
    for ranks, collective in sorted({key[:2] for key in record.times}):
        lines += time_table(record, ranks, collective)
    return "\n".join(lines).rstrip("\n") + "\n"


def replace_between_markers(path, text):
    page = path.read_text(encoding="utf-8")
    head, tail = page.index(BEGIN) + len(BEGIN), page.index(END)
    path.write_text(page[:head] + text + page[tail:], encoding="utf-8")
