"""The verdict of a record that real_text.py measured, and its tables as Markdown."""

import json
import math
import statistics

LEVEL = 0.05  # of Welch's test


def t_tail(t, freedom):
    """P(|T| ≥ t) of Student's t: Simpson's rule on the density."""
    if math.isinf(t):
        return 0.0
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    density = lambda x: scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2)
    parts = 2000
    width = t / parts
    inside = density(0) + density(t) + sum((4 if i % 2 else 2) * density(i * width) for i in range(1, parts))
    return max(0.0, 1 - 2 * inside * width / 3)


def t_bound(freedom):
    """The t with P(|T| ≥ t) = LEVEL, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > LEVEL else (low, middle)
    return high


def welch(own, peer):
    """Whether two samples may have one mean: Welch's t-test, two-sided, at LEVEL."""
    parts = [statistics.variance(values) / len(values) for values in (own, peer)]
    error = math.sqrt(sum(parts))
    difference = statistics.mean(own) - statistics.mean(peer)
    if error == 0:
        return {"difference": difference, "standard_error": 0.0, "within_noise": difference == 0}
    freedom = sum(parts) ** 2 / sum(part ** 2 / (len(values) - 1) for part, values in zip(parts, (own, peer)))
    probability = t_tail(abs(difference) / error, freedom)
    return {"difference": difference, "standard_error": error, "degrees_of_freedom": freedom, "p": probability,
            "interval_95": [difference - t_bound(freedom) * error, difference + t_bound(freedom) * error],
            "within_noise": probability >= LEVEL}


def finals(curves, group):
    return [curve["evals"][-1]["heldout_loss"] for curve in curves if curve["group"] == group]


def compare_same(own, peer):
    """How far two runs from the same weights are apart: at each evaluation, and step by step."""
    heldout = [{"step": a["step"], "difference": a["heldout_loss"] - b["heldout_loss"]}
               for a, b in zip(own["evals"], peer["evals"])]
    apart = [abs(a - b) for a, b in zip(own["training_losses"], peer["training_losses"])]
    return {"seed": own["seed"], "heldout": heldout,
            "largest_heldout": max(abs(row["difference"]) for row in heldout),
            "first_steps": [{"steps": count, "largest_training": max(apart[:count])}
                            for count in (1, 10, 50, 100, len(apart)) if count <= len(apart)]}


def verdict(curves, names):
    own, peer = finals(curves, names["nqd"]), finals(curves, names["torch"])
    by_seed = {(curve["group"], curve["seed"]): curve for curve in curves}
    found = {"test": f"Welch's t-test of the final held-out losses, two-sided, level {LEVEL}",
             "runs": [len(own), len(peer)], "same_weights": [
                 compare_same(by_seed[names["nqd"], seed], curve)
                 for (group, seed), curve in by_seed.items() if group == names["same"]]}
    return found | welch(own, peer) if min(len(own), len(peer)) > 1 else found


def as_json(record):
    """One curve's numbers on one line each, so that the file can be read."""
    text = json.dumps(record | {"curves": []}, indent=1, ensure_ascii=False)
    lines = []
    for curve in record["curves"]:
        members = ",\n   ".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
                                for key, value in curve.items())
        lines.append("  {" + members + "}")
    return text.replace('"curves": []', '"curves": [\n' + ",\n".join(lines) + "\n ]") + "\n"


def curve_table(curves):
    steps = [row["step"] for row in curves[0]["evals"]]
    lines = ["| step | " + " | ".join(curve["label"] for curve in curves) + " |", "|---|" + "---|" * len(curves)]
    for i, step in enumerate(steps):
        lines.append(f"| {step} | " + " | ".join(f"{c['evals'][i]['heldout_loss']:.4f}" for c in curves) + " |")
    return lines


def group_table(curves):
    lines = ["| | runs | final held-out loss, mean | standard deviation over seeds |", "|---|---|---|---|"]
    for group in dict.fromkeys(curve["group"] for curve in curves):
        values = finals(curves, group)
        spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else "–"
        lines.append(f"| {group} | {len(values)} | {statistics.mean(values):.4f} | {spread} |")
    return lines


def svg(curves):
    """The held-out losses as a picture, without those of untrained weights: a colour a group, a line a run."""
    curves = [curve | {"evals": curve["evals"][1:]} for curve in curves]
    width, height, left, top, right, bottom = 760, 380, 56, 16, 16, 44
    groups = list(dict.fromkeys(curve["group"] for curve in curves))
    colours = ("#2563eb", "#d97706", "#059669", "#7c3aed")
    first, last = (curves[0]["evals"][i]["step"] for i in (0, -1))
    losses = [row["heldout_loss"] for curve in curves for row in curve["evals"]]
    low, high = math.floor(20 * min(losses)) / 20, math.ceil(20 * max(losses)) / 20
    across = lambda step: left + (step - first) / (last - first) * (width - left - right)
    down = lambda loss: top + (high - loss) / (high - low) * (height - top - bottom)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="12">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for twentieth in range(round(20 * low), round(20 * high) + 1):
        y = down(twentieth / 20)
        lines.append(f'<path d="M{left} {y:.1f}H{width - right}" stroke="#e5e7eb"/>'
                     f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{twentieth / 20:.2f}</text>')
    for row in curves[0]["evals"]:
        lines.append(f'<text x="{across(row["step"]):.1f}" y="{height - bottom + 18}" text-anchor="middle">'
                     f'{row["step"]}</text>')
    lines.append(f'<text x="{(left + width - right) / 2:.0f}" y="{height - 8}" text-anchor="middle">step</text>'
                 f'<text transform="translate(14 {(top + height - bottom) / 2:.0f}) rotate(-90)" '
                 'text-anchor="middle">held-out loss, nats a byte</text>')
    for curve in curves:
        place = groups.index(curve["group"])
        path = "L".join(f'{across(row["step"]):.1f} {down(row["heldout_loss"]):.1f}' for row in curve["evals"])
        dashes = ' stroke-dasharray="6 4"' if place else ""
        lines.append(f'<path d="M{path}" fill="none" stroke="{colours[place % 4]}" stroke-width="1.5"{dashes}/>')
    for place, group in enumerate(groups):
        y = top + 20 + 18 * place
        lines.append(f'<path d="M{width - 320} {y}h24" stroke="{colours[place % 4]}" stroke-width="2"/>'
                     f'<text x="{width - 288}" y="{y + 4}">{group}, '
                     f'{sum(curve["group"] == group for curve in curves)} run(s)</text>')
    return "\n".join(lines) + "\n</svg>\n"


def verdict_lines(found):
    lines = []
    if "p" in found:
        low, high = found["interval_95"]
        lines += ["", f"{found['test']}: nqd − PyTorch = {found['difference']:+.4f} nats a byte, standard error "
                  f"{found['standard_error']:.4f}, {found['degrees_of_freedom']:.1f} degrees of freedom, "
                  f"p = {found['p']:.2f}, 95 % interval {low:+.4f} to {high:+.4f}: "
                  f"**{'within' if found['within_noise'] else 'not within'} seed noise**."]
    for same in found["same_weights"]:
        steps = ", ".join(f"{row['largest_training']:.1e} over the first {row['steps']}" if row["steps"] > 1
                          else f"{row['largest_training']:.1e} at step 1" for row in same["first_steps"])
        lines += ["", f"From the same initial weights and in the same order of samples (seed {same['seed']}), nqd's and "
                  f"PyTorch's training losses differ by at most {steps} steps; held-out losses by at most "
                  f"{same['largest_heldout']:.1e}."]
    return lines


def render(record):
    data, host = record["data"], record["host"]
    lines = [f"Measured {record['started_at'][:16].replace('T', ' ')} to {record['ended_at'][11:16]} UTC on "
             f"{host['cpu_model']}, {host['online_cpus']} CPUs; {record['source']}; "
             f"{', '.join(data['packages'])}; {record['parameters']:,} parameters:", "",
             "```sh", " ".join(record["argv"]), "```", ""]
    lines += group_table(record["curves"]) + verdict_lines(record["verdict"])
    heldout = next(split for split in data["splits"] if split["split"] == "heldout")
    lines += ["", f"Held-out loss, nats a byte, of {record['curves'][0]['evals'][0]['tokens']:,} bytes of "
              f"{', '.join(data['heldout_books'])}. For scale: frequencies of bytes alone give "
              f"{heldout['unigram_entropy_nats']:.2f}, frequencies of pairs {data['heldout_bigram_nats']:.2f}.", ""]
    lines += curve_table(record["curves"])
    return "\n".join(lines) + "\n"
