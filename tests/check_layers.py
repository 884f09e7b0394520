#!/usr/bin/env python3
"""Fails if an #include crosses a border of the architecture (docs/architecture.md).

    check_layers.py [ROOT]        checks the sources below ROOT (default: this project)
    check_layers.py --self-test   plants one violation of each kind and expects to find it

Three rules, each a table below: which folder may include which, which libraries stand
only in the files that wrap them, and that our own headers are included from the root.
"""
import argparse
import fnmatch
import re
import sys
import tempfile
from pathlib import Path

# Folder -> the folders below it. Its own headers may always be included.
BELOW = {
    "base": [],
    "io": ["base"],
    "backend": ["base"],
    "comm": ["backend", "base"],
    "parallel": ["comm", "backend", "base"],
    "model": ["parallel", "comm", "backend", "io", "base"],
    "engine": ["model", "parallel", "comm", "backend", "io", "base"],
    "study": ["engine", "model", "parallel", "comm", "backend", "io", "base"],
    "launcher": ["study", "engine", "model", "parallel", "comm", "backend", "io", "base"],
    "tools": ["study", "engine", "model", "parallel", "comm", "backend", "io", "base"],
    "bench": ["study", "engine", "model", "parallel", "comm", "backend", "io", "base"],
    "tests": ["tools", "launcher", "study", "engine", "model", "parallel", "comm", "backend", "io", "base"],
}

# Header pattern -> the only files that may include it.
VENDORS = {
    "mpi.h": ["comm/mpi_*", "tests/mpi/*"],
    "nlohmann/*": ["io/*", "model/*", "study/*", "launcher/*", "tests/*"],
    "CLI/*": ["launcher/*", "bench/*"],
    "yaml-cpp/*": ["launcher/*", "tests/unit/launcher/*"],
    "hwy/*": ["backend/cpu/*", "bench/*"],
    "utf8proc.h": ["io/*"],
    "spdlog/*": ["base/*"],
    "cuda*.h": ["backend/cuda/*", "comm/cuda/*", "tests/gpu/*", "tools/gpu_check/*"],
    "cublas*.h": ["backend/cuda/*", "tests/gpu/*"],
    "nccl.h": ["comm/cuda/*", "tests/gpu/*"],
    "gtest/*": ["tests/*"],
    "gmock/*": ["tests/*"],
    "benchmark/*": ["bench/*"],
}

# Headers that the build makes (cmake/) -> the only files that may include them.
GENERATED = {"build_info.h": ["launcher/*"]}

SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def problem_of(root, folder, path, quote, header):
    """What is wrong with `path` (in `folder`) including `header`, or None."""
    for pattern, allowed in {**VENDORS, **GENERATED}.items():
        if fnmatch.fnmatchcase(header, pattern):
            if any(fnmatch.fnmatchcase(path, a) for a in allowed):
                return None
            return f"only {', '.join(allowed)} may include it"
    target = header.split("/")[0]
    if target not in BELOW:
        if quote == '"':
            return "not a header of ours by its path from the root; name others in <>"
        return None
    if not (root / header).is_file():
        return "there is no such file"
    if quote == "<":
        return 'our own headers are included in ""'
    if target != folder and target not in BELOW[folder]:
        return f"{folder}/ may include only {', '.join([folder, *BELOW[folder]])}"
    return None


def violations(root):
    """(messages, number of #include lines read), over all sources below root."""
    found, count = [], 0
    for folder in BELOW:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SUFFIXES:
                continue
            path = file.relative_to(root).as_posix()
            text = file.read_text(encoding="utf-8")
            for number, line in enumerate(text.splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                count += 1
                problem = problem_of(root, folder, path, *match.groups())
                if problem:
                    found.append(f'{path}:{number}: includes "{match[2]}": {problem}')
    return found, count


def self_test():
    """Each planted line must be the one violation found in an otherwise clean tree."""
    clean = {
        "base/error.h": "#include <string>\n",
        "io/json.h": '#include "base/error.h"\n',
        "io/json.cc": '#include <nlohmann/json.hpp>\n#include "io/json.h"\n',
        "comm/mpi_comm.cc": '#include <mpi.h>\n#include "base/error.h"\n',
        "model/gpt2.cc": '#include "io/json.h"\n// #include "launcher/options.h"\n',
        "launcher/options.h": '#include <CLI/CLI.hpp>\n#include "build_info.h"\n',
        "tests/support/near.h": '#include "launcher/options.h"\n#include <gtest/gtest.h>\n',
    }
    planted = [
        ("base/error.h", '#include "io/json.h"'),             # upward
        ("model/gpt2.cc", '#include "launcher/options.h"'),   # nobody includes launcher
        ("comm/mpi_comm.cc", '#  include "io/json.h"'),       # io is not on comm's line
        ("model/gpt2.cc", '#include "tests/support/near.h"'),
        ("model/gpt2.cc", "#include <mpi.h>"),
        ("comm/mpi_comm.cc", "#include <nlohmann/json.hpp>"),
        ("model/gpt2.cc", '#include "CLI/CLI.hpp"'),
        ("io/json.cc", "#include <hwy/highway.h>"),
        ("io/json.cc", "#include <gtest/gtest.h>"),
        ("io/json.cc", '#include "json.h"'),                  # not from the root
        ("io/json.cc", "#include <io/json.h>"),
        ("io/json.cc", '#include "io/gone.h"'),
        ("model/gpt2.cc", '#include "build_info.h"'),
    ]
    failures = []
    for plant in [None, *planted]:
        with tempfile.TemporaryDirectory() as folder:
            for path, text in clean.items():
                if plant and plant[0] == path:
                    text += plant[1] + "\n"
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            found, _ = violations(Path(folder))
        wanted = 1 if plant else 0
        if len(found) != wanted or (plant and not found[0].startswith(plant[0] + ":")):
            failures.append(f"planted {plant}: expected {wanted} violations, found {found}")
    return failures, len(planted)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("root", type=Path, nargs="?", default=Path(__file__).resolve().parent.parent)
    p.add_argument("--self-test", action="store_true")
    o = p.parse_args()
    if o.self_test:
        found, count = self_test()
        what = f"{count} planted violations"
    else:
        found, count = violations(o.root)
        what = f"{count} includes"
        if count == 0:
            found = [f"no #include found below {o.root}: wrong folder?"]
    print("\n".join(found + [f"{what}, {len(found)} problems"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
