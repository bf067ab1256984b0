"""Documentation: links, anchors, navigation of the site, figures, and the syntax of code blocks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from floe_core.schemas import ProjectFile

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs/**/*.md", "examples/*/README.md", "packages/*/README.md")
PAGES = sorted({*ROOT.glob("*.md"), *(page for pattern in FOLDERS for page in ROOT.glob(pattern))})
_FENCE = re.compile(r"^(\s*)```.*?^\1```\s*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ITEM = re.compile(r"( *)([-*]|\d+\.) ")
_INDENT = 4


def prose(page):
    """Return a page without its code."""
    return re.sub(r"`[^`\n]*`", "``", without_blocks(page))


def without_blocks(page):
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def slug_on_github(heading):
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def slug_on_the_site(heading):
    # Like Python-Markdown.
    text = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def anchors(page):
    """Return the anchors that a page has both on a code host and on the site."""
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", found) for found in _HEADING.findall(without_blocks(page))]
    texts = [heading.replace("`", "").replace("**", "") for heading in headings]
    return {slug_on_github(text) for text in texts} & {slug_on_the_site(text) for text in texts}


def broken(page):
    for image, text, target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.is_file() or not found.is_relative_to(ROOT):
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(found):
            yield f"{target}: no such heading"
        elif image and not text.strip():
            yield f"{target}: a plot without a text for those who cannot see it"
        elif not image and found.suffix != ".md" and found.name != "LICENSE":
            yield f"{target}: not a page of the site"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings(page):
    assert list(broken(page)) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a](other.md)", "no such file"),
        ("[a](../outside.md)", "no such file"),
        ("[a](#other)", "no such heading"),
        ("![](plot.svg)", "without a text"),
        ("[a](folder)", "no such file"),
        ("[a](#here-it-is) [b](https://example.com/x.md) `[c](none.md)`\n\n```\n[d](none.md)\n```", None),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path, monkeypatch, text, told):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"# Here it is\n\n{text}\n", encoding="utf-8")
    (tmp_path / "plot.svg").touch()
    (tmp_path / "folder").mkdir()
    found = list(broken(page))
    assert len(found) == (1 if told else 0)
    assert told is None or told in found[0]


def in_navigation(entries):
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        [value] = entry.values()
        yield from [value] if isinstance(value, str) else in_navigation(value)


def test_every_page_is_in_the_navigation_of_the_site_once():
    site = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(in_navigation(site["nav"])) == sorted(str(page.relative_to(ROOT)) for page in PAGES)


def test_the_site_warns_of_everything_it_can():
    site = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert set(site["validation"].values()) == {"warn"}
    # With --quiet, MkDocs does not count warnings.
    built_by = (ROOT / "dev" / "site.py").read_text(encoding="utf-8")
    assert '"--strict"' in built_by
    assert '"--quiet"' not in built_by.partition('"mkdocs", "build"')[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_and_tables_are_those_of_every_markdown(page):
    """Some renderers ask for a blank line before a list or table, and for four blanks before an inner list."""
    wrong = []
    before = ""
    for line in without_blocks(page).splitlines():
        item = _ITEM.match(line)
        if item and len(item[1]) % _INDENT:
            wrong.append(f"four blanks before: {line}")
        if item and not item[1] and before.strip() and not before.startswith(" ") and not _ITEM.match(before):
            wrong.append(f"blank line before: {line}")
        if line.startswith("|") and before.strip() and not before.startswith("|"):
            wrong.append(f"blank line before: {line}")
        before = line
    assert wrong == []


def test_the_figures_and_plots_are_those_of_the_last_measurement():
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.report", "--check"], cwd=ROOT, text=True, capture_output=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def blocks(language):
    return [
        pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, text in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE), 1
        )
    ]


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_piece_of_configuration_is_taken_by_floe(text):
    given = YAML(typ="safe").load(text)
    ProjectFile.model_validate({"schema_version": 1, "name": "shop"} | given)


@pytest.mark.parametrize("text", blocks("python"))
def test_every_piece_of_python_is_python(text):
    ast.parse(text)


def test_the_source_tree_in_the_architecture_is_the_real_one():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Source tree")[2]
    named = set(re.findall(r"`([\w./-]+(?:/|\.py))`", text)) | {
        f"{name}/" for name in re.findall(r"^\| `(\w+)` ", text, re.MULTILINE)
    }
    places = [ROOT, ROOT / "src", ROOT / "src/floe_iceberg", ROOT / "src/floe_dagster"]
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []
    folders = {folder.parent for place in places[1:] for folder in place.glob("*/__init__.py")}
    assert [folder.name for folder in sorted(folders) if f"{folder.name}/" not in named] == []
