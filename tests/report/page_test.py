#!/usr/bin/env python3
"""The page without a browser: HTML that closes what it opens, SVG that is XML, nothing from outside, names with
markup harmless, and the numbers of its tables against the study that was made up."""
import json
import re
import unittest
import xml.etree.ElementTree as ElementTree
from functools import cache
from html.parser import HTMLParser

import make_study
from pages import KINDS, folder_of, make_report, text_of

VOID = {"meta", "link", "input", "br", "img", "hr"}
SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """Tags in pairs, ids, references, and the text of every table as rows."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.problems, self.ids, self.references = [], [], [], []
        self.tags, self.tables, self.scripts, self.words = [], [], {}, []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if "id" in attrs:
            self.ids.append(attrs["id"])
        for name in ("aria-labelledby", "for"):
            self.references += (attrs.get(name) or "").split()
        if (attrs.get("href") or "").startswith("#"):
            self.references.append(attrs["href"][1:])
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            self.tables[-1][-1].append("")
        self.script = attrs.get("id", "code") if tag == "script" else None

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> where {self.open[-3:]} are open, line {self.getpos()[0]}")
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[self.script] = self.scripts.get(self.script, "") + data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)
        if "table" in self.open and any(t in self.open for t in ("td", "th")):
            self.tables[-1][-1][-1] += data

    def table(self, *heads):
        """The rows of the first table that has all these heads, as dictionaries."""
        for table in self.tables:
            if set(heads) <= set(table[0]):
                return [dict(zip(table[0], row)) for row in table[1:]]
        raise AssertionError(f"no table with the heads {heads}")


@cache
def read(kind):
    return Page(text_of(kind))


def charts(text):
    return re.findall(r"<svg xmlns.*?</svg>", text, re.DOTALL)


class WellFormed(unittest.TestCase):
    def test_html_closes_what_it_opens_and_refers_to_what_there_is(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                page = read(kind)
                self.assertEqual(page.problems, [])
                self.assertEqual(len(page.ids), len(set(page.ids)), "an id twice")
                self.assertEqual(set(page.references) - set(page.ids), set())

    def test_svg_is_xml_with_a_title_and_numbers(self):
        for kind in KINDS:
            for text in charts(text_of(kind)):
                with self.subTest(kind=kind, chart=text[:120]):
                    root = ElementTree.fromstring(text)
                    self.assertEqual(root.get("role"), "img")
                    self.assertTrue(root.findtext(SVG + "title"))
                    self.assertTrue(root.findtext(SVG + "desc"))
                    self.assertNotRegex(text, r'="[^"]*\b(nan|inf)\b')
        self.assertGreater(len(charts(text_of("full"))), 20)

    def test_nothing_comes_from_outside(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                page = read(kind)
                for tag, attrs in page.tags:
                    self.assertNotIn("src", attrs)
                    self.assertRegex(attrs.get("href") or "#", r"^(#|data:,$)")
                style = re.search(r"<style>(.*?)</style>", text_of(kind), re.DOTALL)[1]
                self.assertNotRegex(style, r"url\(|@import")
                self.assertNotRegex(page.scripts["code"], r"fetch|XMLHttpRequest|import\s*\(|http")


class Content(unittest.TestCase):
    def test_raw_data_is_that_of_the_files(self):
        data = json.loads(read("full").scripts["study-data"])
        lines = (folder_of("full") / "cells.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertEqual(data["launches"], [json.loads(x) for x in lines[:-1]])  # the last one is torn
        self.assertEqual(data["plan"], json.loads((folder_of("full") / "plan.json").read_text(encoding="utf-8")))

    def test_every_section_or_a_line_that_says_why_not(self):
        for kind in KINDS:
            page = read(kind)
            titles = {x for x in page.ids if re.fullmatch(r"s\d+", x)}
            missing = " ".join(page.words).count("it would need")
            self.assertEqual(len(titles) + missing, 12, kind)
        self.assertEqual(" ".join(read("full").words).count("it would need"), 0)

    def test_medians_of_the_table_are_those_of_the_launches(self):
        rows = read("full").table("curve", "Karp–Flatt")
        data = json.loads(read("full").scripts["study-data"])
        for ranks in (1, 2, 3, 4):
            rates = sorted(r["tokens_per_s"] for x in data["launches"] for r in x["results"] if x["status"] == "ok"
                           and x["cell"] == f"c00{ranks - 1}" and r["kind"] == "decode")
            row = next(x for x in rows if x["ranks"] == str(ranks) and x["curve"] == "batch 1, auto")
            self.assertEqual(len(rates), 6)
            self.assertAlmostEqual(float(row["tokens/s"].replace(",", "")) / ((rates[2] + rates[3]) / 2), 1, delta=5e-3)
            # Six launches: the interval of the median is the least to the largest (97 %).
            low, high = (float(x.replace(",", "")) for x in row["low…high"].split("…"))
            self.assertAlmostEqual(low / rates[0], 1, delta=5e-3)
            self.assertAlmostEqual(high / rates[-1], 1, delta=5e-3)

    def test_failed_skipped_and_torn_are_shown(self):
        words = " ".join(read("full").words)
        for expected in ("12 heads are not divisible by 5 ranks", "ended after 120 s", "use a smaller --batch", "half written",
                         "exit code 5", "oversubscribed", "noisy", "approximate"):
            self.assertIn(expected, words)

    def test_no_interval_is_claimed_of_two_launches(self):
        words = " ".join(" ".join(read("small").words).split())
        self.assertIn("least and largest of 2 launches (too few for a confidence interval)", words)
        self.assertNotIn("95 % interval of the median over", words)

    def test_bytes_agree_with_the_formula_or_are_called_different(self):
        rows = read("full").table("payload B: formula", "verdict")
        self.assertEqual({x["verdict"] for x in rows}, {"equal"})
        folder = folder_of("small").parent / "bytes"
        make_study.small(folder, 2)
        text = (folder / "cells.jsonl").read_text(encoding="utf-8")
        changed = re.sub(r'"counted_bytes_per_step": (\d{3,})', lambda m: f'"counted_bytes_per_step": {int(m[1]) + 4}', text)
        self.assertNotEqual(changed, text)
        (folder / "cells.jsonl").write_text(changed, encoding="utf-8")
        page = Page(make_report(folder)[2].read_text(encoding="utf-8"))
        self.assertEqual({x["verdict"] for x in page.table("payload B: formula", "verdict")}, {"differs"})

    def test_speed_is_withheld_where_quality_is_unknown(self):
        folder = folder_of("full").parent / "quality"
        make_study.full(folder, 2)
        text = (folder / "cells.jsonl").read_text(encoding="utf-8")
        (folder / "cells.jsonl").write_text(text.replace('"quality_tokens": 127', '"quality_tokens": null'), encoding="utf-8")
        page = Page(make_report(folder)[2].read_text(encoding="utf-8"))
        rows = page.table("strategy", "KL nats")
        self.assertEqual({x["tokens/s"] for x in rows if x["sums"] == "approximate"}, {"withheld"})
        self.assertNotIn("withheld", {x["tokens/s"] for x in rows if x["sums"] == "exact"})


class Hostile(unittest.TestCase):
    def test_markup_in_names_stays_text(self):
        text = text_of("hostile")
        page = read("hostile")
        self.assertEqual([t for t, _ in page.tags if t in ("img", "iframe", "object")], [])
        self.assertEqual(sorted(a.get("id", "code") for t, a in page.tags if t == "script"),
                         ["code", "study-data", "what-if-data"])
        self.assertFalse([a for _, attrs in page.tags for a in attrs if a.startswith("on")])
        self.assertNotRegex(text, "[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e\u2066-\u2069]")
        self.assertIn("owned", " ".join(page.words), "the name is still shown")

    def test_broken_lines_are_told_of(self):
        words = " ".join(read("hostile").words)
        self.assertIn("is no JSON object and was left out", words)
        self.assertIn("half written", words)

    def test_every_prefix_of_the_last_lines_gives_a_page(self):
        folder = folder_of("small").parent / "prefix"
        make_study.small(folder, 1)
        whole = (folder / "cells.jsonl").read_bytes()
        for size in [0, 1, 2, 10, len(whole) // 3, len(whole) // 2, len(whole) - 2, len(whole) - 1]:
            (folder / "cells.jsonl").write_bytes(whole[:size])
            code, messages, page = make_report(folder)
            self.assertEqual(code, 0, messages)
            self.assertEqual(Page(page.read_text(encoding="utf-8")).problems, [])

    def test_a_folder_without_a_plan_is_refused(self):
        folder = folder_of("small").parent / "none"
        folder.mkdir()
        code, messages, _ = make_report(folder)
        self.assertEqual(code, 1)
        self.assertIn("plan.json", messages)
        (folder / "plan.json").write_text("[1, 2", encoding="utf-8")
        code, messages, _ = make_report(folder)
        self.assertEqual(code, 1)
        self.assertIn("a JSON object", messages)

    def test_values_of_other_types(self):
        folder = folder_of("small").parent / "types"
        make_study.small(folder, 1)
        text = re.sub(r'"itl_samples_ms": \[[^]]*\]', '"itl_samples_ms": [1, 2]', (folder / "cells.jsonl").read_text(encoding="utf-8"))
        for value in ("null", "[]", "{}", "-1", '"x"', "1e999", "[[[[]]]]"):
            for key in ("step_ms", "rank_ms", "all_reduce", "itl_samples_ms", "environment", "model", "ranks", "tokens_per_s", "batch"):
                record = [json.loads(x) for x in text.splitlines()]
                lines = []
                for launch in record:
                    for result in launch["results"]:
                        result[key] = "@"
                    lines.append(json.dumps(launch).replace('"@"', value))
                (folder / "cells.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
                code, messages, page = make_report(folder)
                self.assertEqual(code, 0, f"{key} = {value}: {messages}")
                self.assertEqual(Page(page.read_text(encoding="utf-8")).problems, [], f"{key} = {value}")


if __name__ == "__main__":
    unittest.main()
