#!/usr/bin/env python3
"""Compares PythonRepr with Python's own json.loads and str. Python 3.11 is the reference.

    python3.11 tests/tokens/compare_python_repr.py --tool build/bin/python_repr

Documents are random values, and random damage to them: what one side refuses, so must the other,
but for the few things that memoryd refuses by decision. Exits with 1 when anything differs.
"""

import argparse
import json
import math
import random
import struct
import subprocess
import sys

CHARS = ["a", "b", " ", "'", '"', "\\", "/", "\n", "\r", "\t", "\b", "\x01", "\x1f", "\x7f", "\x80",
         "\xa0", "\xad", "é", "\u0378", "\u200b", "\u2028", "\u3000", "中", "\ue000", "\ufeff",
         "\uffff", "😀", "\U0001fae0", "\U000e0001", "\U000e0100", "\U0010ffff", "{", "}", ":", ","]

DAMAGE = ['"', "\\", "{", "}", "[", "]", ",", ":", "0", "1", "-", "+", ".", "e", "E5", "\n", "\x00",
          "\\u12", "\\ud800", "\\udc00", "\\ud83d\\ude00", "\\u0000", "\\x", "\x1f", "true", "nul",
          "NaN", "Infinity", "1e400", "-1e-400", "1e-330", "1e99999999999999999999", " ", "/*", "'"]


def random_string(rng):
    chars = [rng.choice(CHARS) for _ in range(rng.randint(0, 8))]
    if rng.random() < 0.3:
        code_point = rng.randrange(1, 0x110000)
        if not 0xD800 <= code_point <= 0xDFFF:
            chars.append(chr(code_point))
    return "".join(chars)


def random_number(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randint(-20, 20)
    if kind == 1:
        return rng.randint(-(10**40), 10**40)
    if kind == 2:
        return rng.choice([-0.0, 0.0, 1e16, 1e15, 9999999999999998.0, 1e-4, 1e-5, 1e22, 5e-324,
                           1.7976931348623157e308, 2.2250738585072014e-308, 0.1, 123456789.5])
    if kind == 3:
        return float(rng.randint(-(10**18), 10**18))
    if kind == 4:
        return rng.uniform(-1000, 1000)
    value = struct.unpack("<d", rng.randbytes(8))[0]
    return value if math.isfinite(value) else 0.5


def random_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 5 else 5)
    if kind < 2:
        return random_string(rng)
    if kind < 4:
        return random_number(rng)
    if kind == 4:
        return rng.choice([None, True, False])
    if kind == 5:
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {random_string(rng): random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def documents(count):
    rng = random.Random(7)
    for _ in range(count):
        text = json.dumps(random_value(rng), ensure_ascii=rng.random() < 0.5,
                          indent=rng.choice([None, None, 1]))
        if rng.random() < 0.3:
            i = rng.randrange(len(text) + 1)
            text = text[:i] + rng.choice(DAMAGE) + text[i + rng.randint(0, 1):]
        yield text


class Refused(Exception):
    """Something that memoryd refuses and json.loads does not."""


def refuse(reason):
    raise Refused(reason)


def checked_object(pairs):
    if len(dict(pairs)) != len(pairs):
        refuse("a key twice")
    return dict(pairs)


def check_value(value):
    if isinstance(value, float) and not math.isfinite(value):
        refuse("not finite")
    if isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        refuse("U+0000 or a lone surrogate")
    if isinstance(value, list):
        for item in value:
            check_value(item)
    if isinstance(value, dict):
        for key, item in value.items():
            check_value(key)
            check_value(item)


def expected(text):
    try:
        value = json.loads(text, object_pairs_hook=checked_object, parse_constant=refuse)
        check_value(value)
    except (ValueError, Refused):
        return None
    return str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True, help="the python_repr executable")
    parser.add_argument("--documents", type=int, default=200_000)
    arguments = parser.parse_args()
    if sys.version_info[:2] != (3, 11):
        sys.exit("Python 3.11 is needed")

    texts = list(documents(arguments.documents))
    data = b"".join(len(d).to_bytes(4, "little") + d for d in map(str.encode, texts))
    output = subprocess.run([arguments.tool], input=data, stdout=subprocess.PIPE, check=True).stdout
    equal, different, refused, at = 0, 0, 0, 0
    for text in texts:
        size = int.from_bytes(output[at : at + 4], "little")
        reply = output[at + 4 : at + 4 + size].decode()
        at += 4 + size
        want = expected(text)
        if want is None and reply.startswith("!"):
            equal, refused = equal + 1, refused + 1
        elif want is not None and reply == "=" + want:
            equal += 1
        else:
            different += 1
            if different <= 10:
                print(f"{text!a}: {reply!a} instead of {want!a}")
    print(f"repr: {equal} equal ({refused} refused by both), {different} different")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
