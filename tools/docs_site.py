#!/usr/bin/env python3
"""Makes the pages' site, build/site, from the Markdown files of the repository.

usage: docs_site.py [--serve]
under tools/docs.sh, which has mkdocs

The files keep their places, so that their links hold as they do in the repository. Fails at a link
to a file, or to a heading, that is not there. Links to what is no page, such as a source file, become
plain text. llms.txt, which models read, lies at the site's root and links its pages.
"""

from __future__ import annotations

import argparse
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGES = REPOSITORY / "build" / "site-pages"
PATTERNS = ("*.md", "docs/**/*.md", "clients/python/*.md", "clients/cpp/*.md", "clients/typescript/*.md",
            "clients/go/*.md")
FOR_MODELS = "llms.txt"
PICTURES = ("docs/**/*.svg", "docs/**/*.png", "docs/**/*.webp")
# A fence or a code span, which have no links, or a link.
_LINK = re.compile(r"^```.*?^```$|`[^`\n]*`|(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)",
                   re.MULTILINE | re.DOTALL)
# What a test reads behind a fence's language, and mkdocs would not.
_FENCE_WORDS = re.compile(r"^(```\w+) .*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z]+:|#")
_MARKDOWN_FILE = re.compile(r"(?<=\]\()([^()\s#]+)\.md(?=[#)])")


def found(patterns: tuple[str, ...]) -> set[str]:
    """The tracked files that match."""
    tracked = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                             cwd=REPOSITORY, check=True, capture_output=True, text=True)
    there = {path.relative_to(REPOSITORY).as_posix()
             for pattern in patterns for path in REPOSITORY.glob(pattern)}
    return there.intersection(tracked.stdout.splitlines())


def on_site(name: str, text: str, pages: set[str], wrong: list[str]) -> str:
    """The page's text with its links as the site needs them; adds those that lead nowhere."""
    def replaced(match: re.Match[str]) -> str:
        target = match[3]
        if target is None or _ELSEWHERE.match(target):
            return match[0]
        path = target.partition("#")[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if not (REPOSITORY / there).exists():
            wrong.append(f"{name}: {target}")
        if there in pages:
            return match[0]
        return match[2]
    return _LINK.sub(replaced, _FENCE_WORDS.sub(r"\1", text))


def links_of_pages(text: str) -> str:
    """A text whose links to Markdown files are links to the pages that mkdocs makes of them."""
    def replaced(match: re.Match[str]) -> str:
        folder, _, name = match[1].rpartition("/")
        if name in ("index", "README"):
            return f"{folder}/" if folder else "./"
        return f"{match[1]}/"
    return _MARKDOWN_FILE.sub(replaced, text)


def wrong_links() -> list[str]:
    """The links of the pages, and of llms.txt, that lead to no file."""
    pages = found(PATTERNS)
    wrong: list[str] = []
    for name in (*pages, FOR_MODELS):
        on_site(name, (REPOSITORY / name).read_text(encoding="utf-8"), pages, wrong)
    return sorted(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--serve", action="store_true", help="serves the site on loopback")
    arguments = parser.parse_args()
    wrong = wrong_links()
    if wrong:
        print("Links that lead nowhere:", *wrong, sep="\n", file=sys.stderr)
        return 1
    pages, pictures = found(PATTERNS), found(PICTURES)
    shutil.rmtree(PAGES, ignore_errors=True)
    for name in pages | pictures:
        to = PAGES / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if name in pictures:
            shutil.copyfile(REPOSITORY / name, to)
            continue
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        to.write_text(on_site(name, text, pages | pictures, wrong), encoding="utf-8")
    text = (REPOSITORY / FOR_MODELS).read_text(encoding="utf-8")
    (PAGES / FOR_MODELS).write_text(links_of_pages(on_site(FOR_MODELS, text, pages, wrong)),
                                    encoding="utf-8")
    return subprocess.run(["mkdocs", "serve" if arguments.serve else "build", "--strict"],
                          cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
