#!/usr/bin/env python3
"""Runs one model file through skeep, llama.cpp and ik_llama.cpp in turns, and prints medians and ratios.

    bench/peers/compare.py FOLDER MODEL [MODEL...] [--skeep PROGRAM] [-p 512] [-n 64] [-t 2] [-r 5] [-o md|json]

FOLDER is where build.py put the programs. Each round runs every program once on every test, as a process of its own, so that a
busy moment of the machine touches all of them alike; medians of all rounds are compared. All programs get the same file, the same numbers
of random tokens in an empty context, and the same number of threads; ik_llama.cpp repacks the weights when it loads them (-rtr 1),
llama.cpp does so by itself. Notes go to standard error, the table to standard output.
"""
import argparse
import json
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys

PEERS = ("llama.cpp", "ik_llama.cpp")


def processor():
    """What the processor calls itself."""
    named = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return named[1].strip() if named else platform.machine()


def command(program, o, model, test):
    """The command that runs one test once and prints JSON. test is (prompt, generated)."""
    prompt, generated = map(str, test)
    if program == "skeep":
        return [o.skeep, "bench", model, "-p", prompt, "-n", generated, "-t", str(o.threads), "-r", "1", "-o", "json", *o.skeep_options]
    own = ["-rtr", "1"] if program == "ik_llama.cpp" else []
    return [str(o.folder / program / "bin" / "llama-bench"), "-m", model, "-p", prompt, "-n", generated, "-t", str(o.threads), "-r", "1",
            "-o", "json", *own]


def run(program, line, test):
    """Tokens per second, and for skeep the share of the limit."""
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(line)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    if program == "skeep":
        row = json.loads(done.stdout)["results"][0]
        return row["tokens_per_second"], row["share_of_read_bandwidth"] or row["share_of_multiply_operations"]
    rows = json.loads(done.stdout[done.stdout.index("["):])
    row = next(r for r in rows if (int(r["n_prompt"]), int(r["n_gen"])) == test)
    return float(row["avg_ts"]), None


def compare(o, model):
    """The rows of one model: medians of every program on every test, and skeep's ratio to the best peer."""
    tests = [t for t in ((o.prompt, 0), (0, o.generated)) if any(t)]
    programs = ["skeep", *[p for p in PEERS if (o.folder / p / "bin" / "llama-bench").exists()]]
    samples = {(p, t): [] for p in programs for t in tests}
    for i in range(o.rounds):
        for test in tests:
            for program in programs[i % len(programs):] + programs[:i % len(programs)]:
                samples[program, test].append(run(program, command(program, o, model, test), test))
        print(f"{model}: round {i + 1} of {o.rounds}", file=sys.stderr)
    rows = []
    for test in tests:
        rates = {p: statistics.median(rate for rate, _ in samples[p, test]) for p in programs}
        peers = [rates[p] for p in programs[1:]]
        rows.append({"model": pathlib.Path(model).name, "test": f"pp{test[0]}" if test[0] else f"tg{test[1]}", "tokens_per_second": rates,
                     "ratio_to_best_peer": rates["skeep"] / max(peers) if peers else None,
                     "share_of_limit": statistics.median(share for _, share in samples["skeep", test]),
                     "samples": {p: [rate for rate, _ in samples[p, test]] for p in programs},
                     "commands": {p: shlex.join(command(p, o, model, test)) for p in programs}})
    return rows


def table(report):
    """The report as Markdown."""
    names = list(report["rows"][0]["tokens_per_second"])
    lines = [f"{report['processor']}, {report['threads']} threads, medians of {report['rounds']} rounds, tokens/s: `{report['command']}`", ""]
    head = ["model", "test", *names, "skeep / best peer", "skeep's share of the limit"]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for r in report["rows"]:
        ratio = f"{r['ratio_to_best_peer']:.2f} ×" if r["ratio_to_best_peer"] else "-"
        cells = [r["model"], r["test"], *(f"{r['tokens_per_second'][n]:.1f}" for n in names), ratio, f"{100 * r['share_of_limit']:.0f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("models", nargs="+", metavar="MODEL")
    p.add_argument("--skeep", default="skeep", help="the program to compare (default: skeep, as found by PATH)")
    p.add_argument("--skeep-options", type=shlex.split, default=[], help="further options of `skeep bench`, as one argument")
    p.add_argument("-p", dest="prompt", type=int, default=512, help="tokens of the prompt; 0: no such test")
    p.add_argument("-n", dest="generated", type=int, default=64, help="tokens to generate; 0: no such test")
    p.add_argument("-t", dest="threads", type=int, default=2)
    p.add_argument("-r", dest="rounds", type=int, default=5)
    p.add_argument("-o", dest="format", choices=("md", "json"), default="md")
    o = p.parse_args()
    if o.rounds < 1 or o.prompt <= 0 and o.generated <= 0:
        p.error("nothing to run")
    rows = [row for model in o.models for row in compare(o, model)]
    report = {"processor": processor(), "threads": o.threads, "rounds": o.rounds, "command": shlex.join(sys.argv), "rows": rows}
    print(json.dumps(report, indent=2) if o.format == "json" else table(report))


if __name__ == "__main__":
    main()
