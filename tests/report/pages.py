"""Studies that were made up (make_study.py), and their reports by the program make_report.

The environment that CMake gives: SHARDLM_MAKE_REPORT (that program) and SHARDLM_PICTURES (a folder for screenshots).
"""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAKE_REPORT = os.environ["SHARDLM_MAKE_REPORT"]
KINDS = ("full", "small", "coll", "weak", "hostile")
FOLDER = Path(tempfile.mkdtemp(prefix="shardlm-report."))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


@cache
def folder_of(kind):
    """A study's folder of this kind."""
    folder = FOLDER / kind
    subprocess.run([sys.executable, "-B", HERE / "make_study.py", folder, "--kind", kind], check=True)
    return folder


def make_report(folder):
    """(exit status, messages, page or None)"""
    page = folder / "report.html"
    page.unlink(missing_ok=True)
    done = subprocess.run([MAKE_REPORT, folder, page], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr, page if page.exists() else None


@cache
def page_of(kind):
    """The path of the kind's report."""
    code, messages, page = make_report(folder_of(kind))
    if code != 0:
        raise AssertionError(f"make_report ends with {code}: {messages}")
    return page


@cache
def text_of(kind):
    return page_of(kind).read_text(encoding="utf-8")
