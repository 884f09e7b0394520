#!/usr/bin/env python3
"""The page in Chromium without a window: no messages on its console, nothing wider than a phone, no text over other
text, sliders and themes that work, print. Screenshots are left in SHARDLM_PICTURES. Exits with 77 where there is no
Chromium (SHARDLM_CHROMIUM names another)."""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from functools import cache
from pathlib import Path

from pages import FOLDER, page_of, text_of

BROWSER = os.environ.get("SHARDLM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") \
    or shutil.which("google-chrome")
PICTURES = Path(os.environ.get("SHARDLM_PICTURES") or FOLDER / "pictures")
PHONE, DESK = 360, 1100

# Stands first in the page: what goes wrong before the checks is theirs to tell.
LISTEN = """<script>window.problems = [];
addEventListener('error', e => problems.push('error: ' + e.message));
addEventListener('unhandledrejection', e => problems.push('rejected: ' + e.reason));</script>"""

# Stands last. Fills an element with what it found, as JSON.
CHECKS = """<script>
(function () {
  const found = { problems: window.problems, title: document.title, wide: [], over: [], clipped: [] };
  const root = document.documentElement;
  const name = e => (e.closest('[id]') || {}).id + ': ' + e.textContent.slice(0, 30);
  const width = () => root.scrollWidth - root.clientWidth;
  found.dark = matchMedia('(prefers-color-scheme: dark)').matches;
  found.paper = getComputedStyle(document.body).backgroundColor;
  found.overflow_closed = width();
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  found.overflow = width();
  for (const e of document.querySelectorAll('main *, header *')) {
    if (e.closest('.scroll, pre, nav')) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > root.clientWidth + 1 || r.left < -1)) found.wide.push(name(e));
  }
  for (const svg of document.querySelectorAll('svg.chart')) {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
    texts.forEach(([t, r], i) => {
      if (r.left < box.left - 3 || r.right > box.right + 3 || r.top < box.top - 3 || r.bottom > box.bottom + 3) found.clipped.push(name(t));
      for (const [u, s] of texts.slice(i + 1)) {
        const x = Math.min(r.right, s.right) - Math.max(r.left, s.left), y = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top);
        if (x > 1.5 && y > 3) found.over.push(name(t) + ' | ' + u.textContent);
      }
    });
  }
  const rows = () => [...document.querySelectorAll('#what-if-now tbody tr')].map(r => [...r.children].map(c => c.textContent));
  const curves = () => [...document.querySelectorAll('#what-if-chart path.line')].map(p => p.getAttribute('d'));
  const slide = (id, value) => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event('input')); };
  if (document.getElementById('what-if-chart')) {
    const before = curves();
    found.start = rows();
    slide('what-if-alpha', -4);
    found.slow = rows();
    slide('what-if-rate', 8);
    found.narrow = rows();
    found.moved = curves().filter((d, i) => d !== before[i]).length;
    found.curves = before.length;
    found.odd = curves().filter(d => /NaN|Infinity/.test(d)).length;
    const buttons = document.querySelectorAll('button[data-link]');
    buttons[buttons.length - 1].click();
    found.again = rows();
  }
  const theme = document.getElementById('theme');
  theme.click();
  found.other_paper = getComputedStyle(document.body).backgroundColor;
  theme.click();
  found.paper_again = getComputedStyle(document.body).backgroundColor;
  const out = document.createElement('pre');
  out.id = 'found';
  out.textContent = JSON.stringify(found);
  document.body.replaceChildren(out);
})();
</script>"""


def chromium(page, *options, width=DESK, height=2000, dark=False):
    """Output and messages of Chromium on a page."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as profile:
        command = [BROWSER, "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                   f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", f"--window-size={width},{height}",
                   f"--blink-settings=preferredColorScheme={0 if dark else 1}", *options, page.as_uri()]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if done.returncode != 0:
        raise AssertionError(f"Chromium ends with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout, done.stderr


def console_of(messages):
    return [line for line in messages.splitlines() if "CONSOLE" in line]


@cache
def checked(kind, width, dark):
    """What the checks found in the page of this kind."""
    copy = FOLDER / f"{kind}-{width}-{'dark' if dark else 'light'}.html"
    text = text_of(kind).replace("<head>", "<head>" + LISTEN, 1)
    copy.write_text(text.replace("</body>", CHECKS + "</body>"), encoding="utf-8")
    out, messages = chromium(copy, "--dump-dom", width=width, dark=dark)
    found = re.search(r'<pre id="found">(.*?)</pre>', out, re.DOTALL)
    if not found:
        raise AssertionError(f"the checks did not end: {messages[-2000:]}")
    result = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    result["console"] = console_of(messages)
    return result


def picture(name, kind, width, height, dark):
    file = PICTURES / f"{name}.png"
    file.unlink(missing_ok=True)
    _, messages = chromium(page_of(kind), f"--screenshot={file}", width=width, height=height, dark=dark)
    return file, console_of(messages)


VIEWS = [("full", PHONE, False), ("full", DESK, True), ("hostile", PHONE, True), ("weak", PHONE, False)]
SHOTS = [("report-light", "full", DESK, 2600, False), ("report-dark", "full", DESK, 2600, True), ("report-phone", "full", PHONE, 3000, True)]


class InBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Two at once: most of a run is Chromium's start."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        for kind in {view[0] for view in VIEWS}:
            text_of(kind)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            shots = [pool.submit(picture, *shot) for shot in SHOTS]
            list(pool.map(lambda view: checked(*view), VIEWS))
            cls.pictures = [shot.result() for shot in shots]

    def every(self, check):
        for view in VIEWS:
            with self.subTest(view=view):
                check(checked(*view))

    def test_no_errors(self):
        self.every(lambda found: self.assertEqual(found["problems"] + found["console"], []))

    def test_nothing_is_wider_than_the_screen(self):
        self.every(lambda found: self.assertEqual(found["overflow_closed"], 0))
        self.every(lambda found: self.assertEqual(found["overflow"], 0, "with all tables open"))
        self.every(lambda found: self.assertEqual(found["wide"], []))

    def test_no_text_of_a_chart_is_cut_off_or_over_another(self):
        self.every(lambda found: self.assertEqual(found["clipped"], []))
        self.every(lambda found: self.assertEqual(found["over"], []))

    def test_markup_in_names_does_nothing(self):
        self.assertTrue(checked("hostile", PHONE, True)["title"].endswith("scaling study"))

    def test_themes_follow_the_system_and_the_button(self):
        light, dark = checked("full", PHONE, False), checked("full", DESK, True)
        self.assertFalse(light["dark"])
        self.assertTrue(dark["dark"])
        self.assertNotEqual(light["paper"], dark["paper"])
        for found, other in ((light, dark), (dark, light)):
            self.assertEqual(found["other_paper"], other["paper"])
            self.assertEqual(found["paper_again"], found["paper"])

    def test_sliders_move_the_curves(self):
        found = checked("full", DESK, True)
        self.assertEqual(found["odd"], 0)
        self.assertEqual(found["moved"], found["curves"] - 1, "all but that of one rank")
        for slow, start in zip(found["slow"][1:], found["start"][1:]):
            self.assertGreater(float(slow[1]), float(start[1]), "100 µs are slower than 27 µs")
        self.assertEqual(found["slow"][0][1], found["start"][0][1], "one rank has no link")
        for narrow, slow in zip(found["narrow"][1:], found["slow"][1:]):
            self.assertGreater(float(narrow[1]), float(slow[1]))
        self.assertEqual(found["again"], found["start"])

    def test_the_script_computes_what_the_program_wrote(self):
        table = re.search(r'<table id="what-if-now">.*?<tbody>(.*?)</tbody>', text_of("full"), re.DOTALL)[1]
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)]
        self.assertEqual(checked("full", DESK, True)["start"], rows)

    def test_pictures(self):
        for file, console in self.pictures:
            self.assertEqual(console, [])
            self.assertEqual(file.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            self.assertGreater(file.stat().st_size, 50_000, "a page, not a blank")

    def test_print(self):
        file = FOLDER / "report.pdf"
        chromium(page_of("full"), f"--print-to-pdf={file}", "--no-pdf-header-footer", dark=True)
        content = file.read_bytes()
        self.assertTrue(content.startswith(b"%PDF"))
        self.assertGreater(len(re.findall(rb"/Type\s*/Page\b", content)), 3)


if __name__ == "__main__":
    if not BROWSER:
        print("skipped: there is no Chromium here (Debian's package chromium)")
        sys.exit(77)
    unittest.main()
