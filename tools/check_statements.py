#!/usr/bin/env python3
"""Finds, in the statements of core/storage/postgres, what a hash-partitioned or distributed
PostgreSQL refuses or pays for dearly, so that the schema can be spread without a change.

The C++ string literals are read as they are, adjacent ones joined.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "core" / "storage" / "postgres"

VOLATILE = r"(now|clock_timestamp|statement_timestamp|random|gen_random_uuid|nextval)\s*\("

# Pattern, and why it must not be there.
FORBIDDEN = [
    (r"\bSET\b[^;]*=\s*" + VOLATILE, "volatile in an update: send the value, read `excluded`"),
    (r"\bMERGE\s+INTO\b", "MERGE"),
    (r"\bunnest\b[^;]*\bLATERAL\b", "LATERAL over unnest"),
    (r"\bREFERENCES\b", "a foreign key"),
    (r"\b(BIG|SMALL)?SERIAL\b|\bSEQUENCE\b|\bGENERATED\b.*\bIDENTITY\b", "a sequence"),
    (r"\bCREATE\s+TRIGGER\b", "a trigger"),
    (r"\bFOR\s+(NO\s+KEY\s+)?(UPDATE|SHARE)\b", "row locks: claim by a conditional UPDATE"),
    (r"^\s*(LISTEN|NOTIFY)\b|\bpg_notify\b", "notifications are per node"),
    # Uniqueness can be kept only among rows that lie together.
    (r"\bPRIMARY\s+KEY\s*\((?!\s*tenant\s*,\s*session\b)", "a key without tenant, session first"),
    (r"\bUNIQUE\s+INDEX\b[^;(]*\((?!\s*tenant\s*,\s*session\b)",
     "a unique index without tenant, session first"),
]

TOKEN = re.compile(
    r'(?P<skipped>//[^\n]*|#\s*include[^\n]*)'
    r'|R"(?P<tag>\w*)\((?P<raw>.*?)\)(?P=tag)"'
    r'|"(?P<plain>(?:[^"\\\n]|\\.)*)"',
    re.DOTALL,
)


def statements(source: str):
    """(line, text) of every run of adjacent string literals."""
    end, line, text = 0, 0, ""
    for token in TOKEN.finditer(source):
        if source[end : token.start()].strip():  # Code in between ends the run.
            yield line, text
            text = ""
        end = token.end()
        if token["skipped"] is None:
            line = line if text else source.count("\n", 0, token.start()) + 1
            text += token["raw"] or token["plain"] or ""
    yield line, text


def main() -> int:
    files = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in (".cc", ".h", ".sql")]
    found = checked = 0
    for path in files:
        if path.name.endswith("_test.cc"):
            continue
        source = path.read_text(encoding="utf-8")
        parts = [(1, source)] if path.suffix == ".sql" else statements(source)
        for line, text in parts:
            checked += bool(text)
            for pattern, reason in FORBIDDEN:
                if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
                    print(f"{path.relative_to(ROOT)}:{line}: {reason}: {text[:80].strip()}")
                    found += 1
    print(f"statements: {checked} literals in {len(files)} files, {found} refused")
    return int(found > 0 or checked == 0)


if __name__ == "__main__":
    sys.exit(main())
