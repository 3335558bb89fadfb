#!/usr/bin/env python3
"""Reads the SQL of both stores and refuses
  - a statement that reaches a table of ours by anything but the key of one tenant and session, or
    of one tenant and namespace;
  - in core/storage/postgres, what a hash-partitioned or distributed PostgreSQL refuses or pays for
    dearly, so that the schema can be spread without a change;
  - more queries in core/storage/postgres than leave room, among the statements that PgBouncer keeps
    prepared, for those of batches (docs/adr/0072-names-behind-a-pooler.md).

The C++ string literals are read as they are, adjacent ones joined. Each run first takes the key out
of every statement found, one at a time, and fails when that goes unseen.
"""

import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
STORES = [ROOT / "core" / "storage" / store for store in ("postgres", "sqlite")]

# Not memoryd_values and memoryd_item_values: they are reached by ids that stand in rows of these.
TABLE = (
    r"memoryd_(?:sessions|messages|requests|garbage|forgotten|blocks|jobs|namespaces|items|item_counts"
    r"|item_requests|item_garbage)\b"
)
# What stands beside the tenant in a key. SQLite finds a namespace by its path, and its items by its
# generation.
PLACE = r"(?:session|namespace|path|generation)"
READ = re.compile(r"\b(?:FROM|JOIN|UPDATE)\s+" + TABLE, re.IGNORECASE)
INSERT = re.compile(
    r"\bINSERT\s+(?:OR\s+\w+\s+)?INTO\s+" + TABLE + r"(?:\s+AS\s+\w+)?\s*\(([^)]*)\)?",
    re.IGNORECASE,
)
# `tenant = $1 AND session = $2`, `m.tenant = k.tenant AND m.session = k.session`, `session > ?`,
# `session >= ?`.
KEY = re.compile(
    r"\b(?:(\w+)\.)?tenant\s*=\s*(?:\$\d+|\?|(?!\1\.)\w+\.tenant\b)"
    r"\s+AND\s+(?:\1\.)?(" + PLACE + r")\s*(?:=|>=?)\s*(?:\$\d+|\?|(?!\1\.)\w+\.\2\b)",
    re.IGNORECASE,
)

# (file, constant): why it needs no key of its own.
WITHOUT_KEY = {
    ("sweep.cc", "kListGarbage"): "the sweeper serves all tenants; its rows go to nobody",
    ("sweep.cc", "kListForgotten"): "the sweeper",
    ("sweep.cc", "kListRequests"): "the sweeper",
    ("sweep.cc", "kListTombstones"): "the sweeper",
    ("sweep.cc", "kListEndedJobs"): "the sweeper",
    ("job_queries.h", "kClaimableJobs"): "claims for all tenants; each job names its own",
    ("job_queries.h", "kCountJobs"): "numbers for the operator",
    ("read_queries.h", "kListExpiring"): "the sweeper serves all tenants; each row names its own",
    ("read_queries.h", "kListDropping"): "the sweeper",
    ("sqlite_read.cc", "kListExpiring"): "the sweeper",
    ("sqlite_read.cc", "kListDropping"): "the sweeper",
    ("read_queries.h", "kReadUsage"): "one tenant's numbers, for its quota",
    ("sqlite_read.cc", "kSelectUsage"): "one tenant's numbers, for its quota",
    ("sqlite_jobs.cc", "kSelectClaimable"): "claims for all tenants; each job names its own",
    ("sqlite_jobs.cc", "kCountJobs"): "numbers for the operator",
    ("sqlite_purge.cc", "kSelectForgotten"): "the sweeper",
    ("sqlite_purge.cc", "kSelectGarbage"): "the sweeper",
    ("value.cc", "kCheckValues"): "a number for the operator",
    ("value.cc", "kCheckItemValues"): "a number for the operator",
    ("sqlite_purge.cc", "kDeleteEndedJobs"): "the sweeper",
    ("sqlite_purge.cc", "kDeleteRequests"): "the sweeper",
    ("sqlite_purge.cc", "kDeleteTombstones"): "the sweeper",
    ("item_queries.h", "kListNamespaces"): "one tenant's namespaces, by their paths",
    ("item_queries.h", "kListSubjectNamespaces"): "one tenant's namespaces",
    ("item_queries.h", "kReadItemUsage"): "one tenant's numbers, for its quota",
    ("item_queries.h", "kPurgeExpiredItems"): "the sweeper serves all tenants",
    ("item_queries.h", "kListItemGarbage"): "the sweeper",
    ("item_queries.h", "kPurgeItemRequests"): "the sweeper",
    ("namespace_queries.h", "kPurgeStaging"): "the sweeper",
    ("sqlite_item_read.cc", "kSelectItemUsage"): "one tenant's numbers, for its quota",
    ("sqlite_item_purge.cc", "kSelectExpired"): "the sweeper serves all tenants",
    ("sqlite_item_purge.cc", "kSelectItemGarbage"): "the sweeper",
    ("sqlite_item_purge.cc", "kDeleteItemById"): "the sweeper, by ids that it has just read",
    ("sqlite_item_purge.cc", "kDeleteItemRequests"): "the sweeper",
    ("sqlite_item_purge.cc", "kSelectOldStaging"): "the sweeper",
}

# In batch_clauses.cc: what the first columns of a clause make of each, where a static_assert there
# says that those are the key.
PLACEHOLDERS = {
    "{columns}": "tenant, session",
    "{conditions}": "tenant = $1 AND session = $2",
}

MAX_QUERIES = 80
QUERY = re.compile(r"\bconstexpr\s+Query\s+k[A-Z]")

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
    (r"\bPRIMARY\s+KEY\s*\((?!\s*tenant\s*,\s*(session|namespace)\b)",
     "a key without tenant and session, or tenant and namespace, first"),
    (r"\bUNIQUE\s+INDEX\b[^;(]*\((?!\s*tenant\s*,\s*(session|namespace)\b)",
     "a unique index without tenant and session, or tenant and namespace, first"),
]

TOKEN = re.compile(
    r'(?P<skipped>//[^\n]*|#\s*include[^\n]*)'
    r'|R"(?P<tag>\w*)\((?P<raw>.*?)\)(?P=tag)"'
    r'|"(?P<plain>(?:[^"\\\n]|\\.)*)"',
    re.DOTALL,
)


def statements(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, constant, text) of every run of adjacent string literals; macros of ours, which stand
    for more of them, don't end one."""
    end, line, text, constant, name = 0, 0, "", "", ""
    for token in TOKEN.finditer(source):
        between = source[end : token.start()]
        # Code in between ends the run, the end of a line within a macro does not.
        if re.sub(r"\bMEMORYD_\w+|\\\n", "", between).strip():
            yield line, constant, text
            text = ""
            if declared := re.search(r"\bconstexpr\b[^;]*\b(k[A-Z]\w*)[^;]*$", between):
                name = declared[1]
            elif ";" in between:
                name = ""
        end = token.end()
        if token["skipped"] is None:
            if not text:
                line, constant = source.count("\n", 0, token.start()) + 1, name
            text += token["raw"] or token["plain"] or ""
    yield line, constant, text


def lacks_key(text: str) -> bool:
    """Whether a table is reached without a tenant's and a session's key."""
    columns = [re.findall(r"\w+", listed) for listed in INSERT.findall(text)]
    return len(KEY.findall(text)) < len(READ.findall(text)) or any(
        "tenant" not in names or not any(re.fullmatch(PLACE, name) for name in names)
        for names in columns)


def without_one_key(text: str) -> Iterator[str]:
    """The statement again and again, each time without one of its keys."""
    for key in KEY.finditer(text):
        yield text[: key.start()] + "TRUE" + text[key.end() :]
    for insert in INSERT.finditer(text):
        for column in ("tenant", PLACE):
            listed = re.sub(rf"\b{column}\b", "other", insert[1])
            yield text[: insert.start(1)] + listed + text[insert.end(1) :]


def read(store: pathlib.Path) -> Iterator[tuple[pathlib.Path, int, str, str]]:
    """(file, line, constant, text) of every literal."""
    for path in sorted(store.rglob("*")):
        if path.suffix not in (".cc", ".h", ".sql") or path.name.endswith("_test.cc"):
            continue
        source = path.read_text(encoding="utf-8")
        parts = [(1, "", source)] if path.suffix == ".sql" else statements(source)
        for line, constant, text in parts:
            if path.name == "batch_clauses.cc":
                for placeholder, filled in PLACEHOLDERS.items():
                    text = text.replace(placeholder, filled)
            if text:
                yield path, line, constant, text


def main() -> int:
    refused = []
    unused = set(WITHOUT_KEY)
    for store in STORES:
        literals = keyed = 0
        for path, line, constant, text in read(store):
            literals += 1
            reasons = []
            if store.name == "postgres":
                reasons = [
                    reason
                    for pattern, reason in FORBIDDEN
                    if re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
                ]
            if READ.search(text) or INSERT.search(text):
                if (path.name, constant) in WITHOUT_KEY:
                    unused.discard((path.name, constant))
                elif lacks_key(text):
                    reasons.append("a table reached without `tenant = $ AND session = $`")
                else:
                    keyed += 1
                    reasons += [
                        "this check does not see that a key is missing in: " + " ".join(cut.split())
                        for cut in without_one_key(text)
                        if not lacks_key(cut)
                    ]
            refused += [
                f"{path.relative_to(ROOT)}:{line}: {reason}: {text[:80].strip()}"
                for reason in reasons
            ]
        queries = sum(len(QUERY.findall(path.read_text(encoding="utf-8")))
                      for pattern in ("*.h", "*.cc") for path in store.glob(pattern)
                      if not path.name.endswith("_test.cc"))
        if store.name == "postgres" and not 0 < queries <= MAX_QUERIES:
            refused.append(f"{store.relative_to(ROOT)}: {queries} queries, not 1 to {MAX_QUERIES}")
        if keyed == 0:
            refused.append(f"{store.relative_to(ROOT)}: no statement found")
        print(f"{store.name}: {literals} literals, {keyed} statements with the key of a session")
    refused += [f"WITHOUT_KEY: there is no {constant} in {file}" for file, constant in unused]
    print("\n".join([*refused, f"{len(refused)} refused"]))
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
