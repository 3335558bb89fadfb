#!/usr/bin/env python3
"""Compares token counts and speed with tiktoken's.

    pip install tiktoken==0.14.0
    tests/tokens/compare_tiktoken.py --tool build/bin/token_count --vocabulary build/share/memoryd

Exits with 1 when a count differs, or when memoryd is below --least-ratio on short messages.
"""

import argparse
import hashlib
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
MESSAGE_BYTES = 88

SPECIALS = [
    "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>",
    "<|endoftext", "<|endoftext>", "<|im_start|>", "<|", "|>", "<<|endoftext|>>", "<|ENDOFTEXT|>",
]

# First and last code point of stretches of text that people write.
SCRIPTS = [
    (0x41, 0x7A), (0xC0, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x4FF),
    (0x530, 0x58F), (0x5D0, 0x5EA), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xA7F),
    (0xB80, 0xBFF), (0xE00, 0xE7F), (0xE80, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F),
    (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1780, 0x17FF),
    (0x1800, 0x18AF), (0x1C80, 0x1CBF), (0x1E00, 0x1FFF), (0x2C00, 0x2DFF), (0x3040, 0x30FF),
    (0x3130, 0x318F), (0x4E00, 0x9FFF), (0xA640, 0xA69F), (0xAB30, 0xABBF), (0xAC00, 0xD7A3),
    (0xFB00, 0xFDFF), (0xFE70, 0xFEFF), (0xFF00, 0xFFEF), (0x10400, 0x1044F), (0x10330, 0x1034F),
    (0x12000, 0x123FF), (0x16F40, 0x16F9F), (0x1D400, 0x1D7FF), (0x1E900, 0x1E95F),
    (0x20000, 0x2A6DF),
]

EMOJI = ["😀", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇫🇷", "❤️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☕", "🫠", "✅"]

# At least two of each class that the patterns tell apart, and what they name one by one.
PATTERN_ATOMS = [
    "a", "b", "z", "é", "ß", "ſ", "A", "S", "Ω", "ǅ", "ᾈ", "ʰ", "ー", "ª", "中", "א", "ก", "\u0301",
    "\u0903", "\u20dd", "\U000e0100", "0", "7", "٣", "Ⅷ", "½", "²", " ", " ", " ", "\t", "\n", "\n",
    "\r", "\r\n", "\u0085", "\u00a0", "\u2003", "\u2028", "\u3000", "\u000b", "\u001c",
    "\u200b", "\ufeff",
    "'", "'s", "'S", "'ſ", "'ll", "'lL", "'VE", "'re", "'d", "'M", "'t", "'l", "'v",
    "’s", "!", "/", "//",
    "_", "-", "$", "+", "<", "|", "\u0000", "\u00ad", "\ue000", "\u0378", "😀", "\ufffd",
]

WORDS = (
    "the of and to in a is that for it as was with be by on not he I this are or his from at which "
    "but have an had they you were their one all we can her has there been if more when will would "
    "who so no said what up its about into than them only other new some could time these two may "
    "then do first any my now such like our over man me even most made after also did many before "
    "must through back years where much your way well down should because each just those people "
    "how too little state good very make world still own see men work long get here between both "
    "life being under never day same another know while last might us great old year off come "
    "since against go came right used take three weather Paris meeting tomorrow remember calendar "
    "booking don't I'm you'll it's we've Python function error database, token; memory? OK."
).split()


def random_char(rng):
    while True:
        code_point = rng.randrange(0x110000)
        if not 0xD800 <= code_point <= 0xDFFF:
            return chr(code_point)


def message(rng, size):
    text = ""
    while len(text) < size:
        text += rng.choice(WORDS) + " "
    return text[:size]


def script_text(rng):
    words = []
    for _ in range(rng.randint(1, 12)):
        first, last = rng.choice(SCRIPTS)
        words.append("".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 12))))
    return rng.choice([" ", " ", ", ", "\n", ""]).join(words)


def mutated(rng, text):
    """`text` with some of its characters replaced, doubled or dropped."""
    chars = list(text)
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(chars) + 1)
        chars[i : i + rng.randint(0, 2)] = rng.choice(PATTERN_ATOMS + SPECIALS)
    return "".join(chars)


def source_lines():
    """Lines of the standard library's code and of C headers, in windows of one to forty."""
    files = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))
    files += sorted(pathlib.Path("/usr/include").glob("*.h"))
    rng = random.Random(1)
    for file in files:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        i = 0
        while i < len(lines):
            step = rng.choice([1, 1, 2, 3, 5, 10, 40])
            yield "".join(lines[i : i + step])
            i += step


def long_runs():
    units = ["a", "A", " ", "\n", "\r\n", "\t", "!", "0", "é", "中", "ab", "aB", "=-", "\u0301", "😀",
             "x ", "'s"]
    sizes = [2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 95, 96, 97, 98, 127, 128, 129, 255, 256, 257,
             1000, 5000]
    for unit in units:
        for size in sizes:
            yield unit * size
            yield unit * size + "x"
            yield "x" + unit * size
            yield " " + unit * size + "\n"
    rng = random.Random(2)
    for size in [90, 95, 96, 97, 100, 130, 500, 3000]:
        for _ in range(40):
            yield "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(size))
            yield "".join(rng.choice("etaoinshr") for _ in range(size))
            yield "".join(rng.choice("=-_+*#/.") for _ in range(size))


def corpus(count):
    rng = random.Random(20240229)
    texts = ["", " ", "\n", "\0", *SPECIALS, *EMOJI, *PATTERN_ATOMS]
    texts += [chr(c) for c in range(0x250)]
    texts += list(long_runs())
    code = list(source_lines())
    rng.shuffle(code)
    texts += code[: count // 4]
    kinds = [
        lambda: message(rng, rng.randint(1, 200)),
        lambda: mutated(rng, message(rng, rng.randint(1, 120))),
        lambda: mutated(rng, rng.choice(code)[:400]),
        lambda: script_text(rng),
        lambda: mutated(rng, script_text(rng)),
        lambda: "".join(random_char(rng) for _ in range(rng.randint(1, 24))),
        lambda: "".join(rng.choice(PATTERN_ATOMS) for _ in range(rng.randint(1, 8))),
        lambda: "".join(rng.choice(PATTERN_ATOMS) for _ in range(rng.randint(8, 60))),
        lambda: "".join(rng.choice(EMOJI + WORDS + [" "]) for _ in range(rng.randint(1, 20))),
        lambda: "".join(rng.choice(SPECIALS + WORDS + [" ", "\n"])
                        for _ in range(rng.randint(1, 12))),
    ]
    while len(texts) < count:
        texts.append(rng.choice(kinds)())
    return texts


def framed(texts):
    encoded = [text.encode() for text in texts]
    return b"".join(len(data).to_bytes(4, "little") + data for data in encoded)


def load_tiktoken(name, vocabulary):
    """tiktoken's own encoding, with our copy of the vocabulary as its download cache."""
    import tiktoken

    with tempfile.TemporaryDirectory() as cache:
        key = hashlib.sha1(VOCABULARY_URL.format(name).encode()).hexdigest()
        source = pathlib.Path(vocabulary, name + ".tiktoken").resolve()
        pathlib.Path(cache, key).symlink_to(source)
        os.environ["TIKTOKEN_CACHE_DIR"] = cache
        return tiktoken.get_encoding(name)


def compare(name, encoding, tool, texts):
    """The number of counts that differ."""
    output = subprocess.run(tool, input=framed(texts), stdout=subprocess.PIPE, check=True).stdout
    counts = [int(line) for line in output.split()]
    if len(counts) != len(texts):
        sys.exit(f"{len(texts)} strings gave {len(counts)} counts")
    equal, different, refused = 0, 0, 0
    for text, count in zip(texts, counts, strict=True):
        try:
            expected = len(encoding.encode(text, allowed_special="all"))
        except ValueError:
            refused += 1  # A run of spaces too long for its regex engine's stack.
            continue
        if count == expected:
            equal += 1
            continue
        different += 1
        if different <= 10:
            print(f"{name}: {count} instead of {expected}: {text[:200]!a}")
    note = f" ({refused} refused by tiktoken)" if refused else ""
    print(f"tokens: {equal} equal, {different} different [{name}]{note}")
    return different


def nanoseconds(function):
    """Processor time: what else the machine does changes the clock, but hardly this."""
    start = time.process_time_ns()
    function()
    return time.process_time_ns() - start


def compare_speed(name, encoding, tool, title, texts, rounds=9):
    """How many times less processor time memoryd takes: the median over rounds, both in turn."""
    data = framed(texts)
    passes = {"memoryd": [], "encode": [], "encode_batch": []}
    for _ in range(rounds):
        passes["encode"].append(
            nanoseconds(lambda: [encoding.encode(text, allowed_special="all") for text in texts]))
        output = subprocess.run([*tool, "5"], input=data, stdout=subprocess.PIPE, check=True).stdout
        passes["memoryd"].append(int(output))
        passes["encode_batch"].append(
            nanoseconds(lambda: encoding.encode_batch(texts, num_threads=1, allowed_special="all")))
    each = {key: statistics.median(values) / len(texts) / 1000 for key, values in passes.items()}
    ratios = {
        key: statistics.median(a / b for a, b in zip(values, passes["memoryd"], strict=True))
        for key, values in passes.items()
    }
    print(f"speed [{name}, {title}]: memoryd {each['memoryd']:.3f} us; tiktoken encode "
          f"{each['encode']:.2f} us ({ratios['encode']:.1f} x), encode_batch in one thread "
          f"{each['encode_batch']:.2f} us ({ratios['encode_batch']:.1f} x)")
    return ratios["encode"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True, help="the token_count executable")
    parser.add_argument("--vocabulary", required=True, help="the folder of the vocabularies")
    parser.add_argument("--strings", type=int, default=210_000)
    parser.add_argument("--least-ratio", type=float, default=3.0)
    parser.add_argument("--no-speed", action="store_true")
    arguments = parser.parse_args()

    texts = corpus(arguments.strings)
    rng = random.Random(3)
    short = [message(rng, MESSAGE_BYTES) for _ in range(2000)]
    long = [message(rng, 20_000) for _ in range(20)]
    mixed = rng.sample([text for text in texts if 20 <= len(text) <= 200], 5000)
    failed = False
    for name in ["cl100k_base", "o200k_base"]:
        encoding = load_tiktoken(name, arguments.vocabulary)
        tool = [arguments.tool, name, arguments.vocabulary]
        failed |= compare(name, encoding, tool, texts) > 0
        if arguments.no_speed:
            continue
        ratio = compare_speed(name, encoding, tool, f"{MESSAGE_BYTES}-byte messages", short)
        failed |= ratio < arguments.least_ratio
        compare_speed(name, encoding, tool, "20 kB texts", long)
        compare_speed(name, encoding, tool, "mixed scripts and code", mixed)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
