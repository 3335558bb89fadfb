#!/usr/bin/env python3
"""write_unicode_tables.py FOLDER > core/base/unicode_tables.h

The properties of Unicode that core/base/visible_text.cc asks for. FOLDER holds the files of
Unicode's character database, as Debian's package unicode-data has them in /usr/share/unicode.
"""
import re
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 98
IGNORABLE = "Default_Ignorable_Code_Point"


def records(path: Path) -> Iterator[list[str]]:
    """The fields of every line that has any."""
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if fields != [""]:
            yield fields


def ranges(path: Path, value: str) -> list[tuple[int, int]]:
    """The code points with this value, as few ranges as there can be."""
    found: list[tuple[int, int]] = []
    for code, got, *_ in sorted(records(path), key=lambda fields: int(fields[0].split("..")[0], 16)):
        if got != value:
            continue
        begin, _, end = code.partition("..")
        first, last = int(begin, 16), int(end or begin, 16)
        if found and found[-1][1] + 1 == first:
            first = found.pop()[0]
        found.append((first, last))
    return found


def wrapped(items: list[str]) -> str:
    lines, line = [], "   "
    for item in items:
        if len(line) + 1 + len(item) > WIDTH:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join([*lines, line])


def table(name: str, comment: str, found: list[tuple[int, int]]) -> str:
    items = wrapped([f"{{0x{first:04X}, 0x{last:04X}}}," for first, last in found])
    return f"// {comment}\ninline constexpr CodeRange {name}[] = {{\n{items}\n}};\n"


def literal(sequence: list[int]) -> str:
    return '"' + "".join(f"\\U{code:08X}" if code > 0xFFFF else f"\\u{code:04X}" if code > 0x7F else chr(code)
                         for code in sequence) + '",'


def main() -> None:
    folder = Path(sys.argv[1])
    head = re.search(r"-(\d+\.\d+\.\d+)\.txt", (folder / "DerivedCoreProperties.txt").read_text())
    if head is None:
        sys.exit(f"no version in {folder}/DerivedCoreProperties.txt")
    version = head.group(1)
    ignorable = ranges(folder / "DerivedCoreProperties.txt", IGNORABLE)
    joining = {value: ranges(folder / "extracted/DerivedJoiningType.txt", value) for value in "DLRT"}
    sequences = []
    for name in ("emoji-sequences.txt", "emoji-zwj-sequences.txt"):
        for codes, *_ in records(folder / "emoji" / name):
            sequence = [] if ".." in codes else [int(code, 16) for code in codes.split()]
            if any(first <= code <= last for code in sequence for first, last in ignorable):
                sequences.append(sequence)
    sequences.sort(key=lambda sequence: "".join(map(chr, sequence)).encode())
    print(f"""// Made by tools/write_unicode_tables.py of Unicode {version}; not to be changed by hand.
#ifndef MEMORYD_CORE_BASE_UNICODE_TABLES_H_
#define MEMORYD_CORE_BASE_UNICODE_TABLES_H_

#include <string_view>

namespace memoryd {{

// Both included.
struct CodeRange {{
  char32_t first;
  char32_t last;
}};

// clang-format off
""")
    print(table("kDefaultIgnorable", IGNORABLE + ".", ignorable))
    print(table("kVirama", "Canonical_Combining_Class Virama.",
                ranges(folder / "extracted/DerivedCombiningClass.txt", "9")))
    print(table("kJoinsLeft", "Joining_Type L or D.", sorted(joining["L"] + joining["D"])))
    print(table("kJoinsRight", "Joining_Type R or D.", sorted(joining["R"] + joining["D"])))
    print(table("kTransparent", "Joining_Type T.", joining["T"]))
    print("// Emoji that have a character of kDefaultIgnorable, by their bytes in UTF-8.\n"
          "inline constexpr std::string_view kEmojiSequences[] = {")
    print(wrapped([literal(sequence) for sequence in sequences]))
    print("""};
// clang-format on

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_UNICODE_TABLES_H_""")


if __name__ == "__main__":
    main()
