"""From texts in any language to the terms by which they are found, as core/retrieval does it.

The stemmers are PyStemmer's. Function words are read from core/retrieval/function_words.inc, which is data.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import pathlib
import re
import unicodedata

import Stemmer

INC = pathlib.Path(__file__).resolve().parents[2] / "core/retrieval/function_words.inc"

# Code: stemmer and script, in the order in which the server has them.
LANGUAGES = {
    "en": ("english", "latin"), "de": ("german", "latin"), "fr": ("french", "latin"),
    "es": ("spanish", "latin"), "it": ("italian", "latin"), "pt": ("portuguese", "latin"),
    "nl": ("dutch", "latin"), "sv": ("swedish", "latin"), "da": ("danish", "latin"),
    "no": ("norwegian", "latin"), "fi": ("finnish", "latin"), "hu": ("hungarian", "latin"),
    "tr": ("turkish", "latin"), "ru": ("russian", "cyrillic"), "el": ("greek", "greek"),
    "ar": ("arabic", "arabic"), "hi": ("hindi", "devanagari"), "hy": ("armenian", "armenian"),
    "ta": ("tamil", "tamil"), "ca": ("catalan", "latin"), "eu": ("basque", "latin"),
    "ga": ("irish", "latin"), "id": ("indonesian", "latin"), "lt": ("lithuanian", "latin"),
    "ro": ("romanian", "latin"), "ne": ("nepali", "devanagari"), "yi": ("yiddish", "hebrew"),
}
# Words of a script that is not the text's language's are stemmed as none.
OF_SCRIPT = {"cyrillic": "ru", "greek": "el", "arabic": "ar", "devanagari": "hi", "armenian": "hy",
             "tamil": "ta"}
SCRIPTS = {"cyrillic": (0x400, 0x52f), "greek": (0x370, 0x3ff), "arabic": (0x600, 0x6ff),
           "devanagari": (0x900, 0x97f), "armenian": (0x530, 0x58f), "tamil": (0xb80, 0xbff),
           "hebrew": (0x590, 0x5ff)}
# Whose words are made of others, written together.
COMPOUNDING = {"de", "nl", "sv", "da", "no", "fi", "hu"}
# Letters that few languages have.
LETTERS = {"ß": "de", "ñ": "es", "ã": "pt", "õ": "pt", "œ": "fr", "ğ": "tr", "ş": "tr", "ı": "tr",
           "å": "sv da no", "ø": "da no", "æ": "da no", "ő": "hu", "ű": "hu"}
MONTHS = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
          "diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
          "dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro "
          "dezembro",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "tr": "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
}

HEAD = 2000  # Bytes of a text that tell its language.
MAX_TERM = 64  # Bytes of a term, and of an English word.
MAX_WORD = 128  # Bytes of another word that are looked at.
PART = 4  # Characters of a word's beginning or end.
BEGINNING_WEIGHT = 0.6
END_WEIGHT = 0.5
HALF_WEIGHT = 0.3  # Of a pair of which one character belongs to a function word.
KANA_WEIGHT = 0.5  # Of a pair of Hiragana.
HAN_WEIGHT = 0.5  # Of a character alone, beside its pairs.

PAIRED = ((0x0e00, 0x0eff), (0x1000, 0x109f), (0x1100, 0x11ff), (0x1780, 0x17ff), (0x3005, 0x312f),
          (0x3131, 0x318e), (0x31a0, 0x31ff), (0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xac00, 0xd7ff),
          (0xf900, 0xfaff), (0x1b000, 0x1b16f), (0x20000, 0x3ffff))
HAN = ((0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xf900, 0xfaff), (0x20000, 0x3ffff))
HIRAGANA = ((0x3041, 0x309f),)
KANA = ((0x3041, 0x30ff),)


def lower(text, *, turkish=False, accents=True):
    """Without case and compatibility forms; without accents too unless they are to stay."""
    if turkish:
        text = text.replace("İ", "i").replace("I", "ı")
    text = unicodedata.normalize("NFKD", text)
    text = text.replace("\u2019", "'").replace("\u02bc", "'").replace("\u00ad", "")
    text = text.replace("\u200b", " ")
    kept = (c for c in text.casefold()
            if not (unicodedata.category(c) == "Cf" or "\ufe00" <= c <= "\ufe0f"
                    or (not accents and (unicodedata.combining(c) == 1
                                         or unicodedata.combining(c) >= 10))))
    return unicodedata.normalize("NFC", "".join(kept))


def fold(text):
    """Without case and accents."""
    return lower(text, accents=False)


def within(c, ranges):
    return any(first <= ord(c[0]) <= last for first, last in ranges)


@functools.cache
def kind_of(c):
    """`word`, `pair`, `mark` of a pair's character or `other`."""
    category = unicodedata.category(c)
    if category[0] == "L" or category == "Nl":
        return "pair" if within(c, PAIRED) else "word"
    if category[0] == "M":
        return "mark" if within(c, PAIRED) else "word"
    return "word" if category in ("Nd", "No") else "other"


def is_letter(text, i):
    return i < len(text) and "a" <= text[i] <= "z"


def runs(text, contractions=False):
    """The words of a text, as (begin, string), and its runs of characters, as (begin, list).

    `contractions`: "don't" is the word "dont", "Ann's" is "Ann". Otherwise words end there.
    """
    i = 0
    while i < len(text):
        kind, begin = kind_of(text[i]), i
        if kind == "word":
            while i < len(text) and kind_of(text[i]) == "word":
                i += 1
            word = text[begin:i]
            if contractions and text[i:i + 1] == "'" and is_letter(text, i + 1):
                i += 1
                end = i
                while is_letter(text, end):
                    end += 1
                if text[i:end] != "s":
                    word += text[i:end]
                i = end
            yield begin, word
        elif kind == "other":
            i += 1
        else:
            characters = []
            while i < len(text) and kind_of(text[i]) in ("pair", "mark"):
                if kind_of(text[i]) == "pair" or not characters:
                    characters.append(text[i])
                else:
                    characters[-1] += text[i]
                i += 1
            yield begin, characters


def script_of(word):
    return next((script for script, limits in SCRIPTS.items() if within(word, (limits,))), "latin")


@functools.cache
def function_words():
    """By language."""
    found = {}
    for code, text in re.findall(r'\{"(\w+)",\n(.*?)\},', INC.read_text(), re.S):
        found[code] = frozenset("".join(re.findall(r'"(.*?)"', text)).split())
    return found


@functools.cache
def languages_of_function_words():
    found = collections.defaultdict(list)
    for code, listed in function_words().items():
        for word in listed if LANGUAGES.get(code, ("", ""))[1] == "latin" else ():
            found[word].append(code)
    return found


@functools.cache
def unspaced_function_words():
    return frozenset(word for code in ("zh", "ja", "th") for word in function_words()[code])


def cut(text, size=MAX_TERM):
    return text.encode()[:size].decode(errors="ignore")


@functools.cache
def stemmer(code):
    return Stemmer.Stemmer(LANGUAGES[code][0])


def detect(text):
    """The language that a text itself tells, or None; and whether it has more runs of Han and kana than
    words: whether it is Chinese or Japanese."""
    scripts, words, han = collections.Counter(), set(), 0
    head = cut(text, HEAD)
    for _, run in runs(fold(head)):
        if isinstance(run, list):
            han += within(run[0], HAN + KANA)
        elif unicodedata.category(run[0])[0] == "L":
            scripts[script_of(run)] += 1
            words.add(run)
    counts = collections.Counter(code for word in words
                                 for code in languages_of_function_words().get(word, ()))
    is_han = han > scripts.total()
    latin = scripts.pop("latin", 0)
    if scripts:
        script = max(SCRIPTS, key=lambda one: scripts[one])
        if scripts[script] > latin and script in OF_SCRIPT:
            return OF_SCRIPT[script], is_han
    head = head.lower()
    counts.update({code for letter, codes in LETTERS.items() if letter in head
                   for code in codes.split()})
    best = max(LANGUAGES, key=lambda code: counts[code])
    least = 2 if best == "en" else counts["en"] + 2
    if counts[best] < least or sum(counts[code] == counts[best] for code in LANGUAGES) > 1:
        return None, is_han
    return best, is_han


def plain(word, code):
    """Without accents."""
    return with_dots(fold(word)) if code == "tr" else fold(word)


def with_dots(word):
    """A Turkish word with a dot on each i: a capital letter may have been that of another language."""
    return word.replace("ı", "i")


def is_of(word, code):
    """Whether the language's stemmer is for the word."""
    return code != "en" and script_of(word) == LANGUAGES[code][1]


@functools.cache
def term_of(word, code):
    """Of a word in lower case, with its accents."""
    term = plain(stemmer(code).stemWord(word), code) if is_of(word, code) else ""
    if term:
        return cut(term)
    word = cut(plain(word, code))
    return cut(stemmer("en").stemWord(word)) if word.isascii() else word


@functools.cache
def parts_of(word, code):
    """Terms that words have in common whose beginnings, or in some languages ends, are alike, with what
    they count in a query."""
    parts = {}
    if any("0" <= character <= "9" for character in word):
        return parts
    if is_of(word, code) and kind_of(word[0]) == "word" and unicodedata.category(word[0])[0] == "L":
        folded = plain(word, code)
        if len(folded) >= PART:
            parts["-" + folded[:PART]] = BEGINNING_WEIGHT
        term = term_of(word, code)
        if code in COMPOUNDING and len(term) >= PART:
            parts["+" + term[-PART:]] = END_WEIGHT
    return parts


@dataclasses.dataclass
class Terms:
    """Of a text. `words`: those that have a vector, in lower case."""

    terms: list = dataclasses.field(default_factory=list)
    length: int = 0
    words: list = dataclasses.field(default_factory=list)

    def extend(self, other):
        self.terms += other.terms
        self.length += other.length
        self.words += other.words


@dataclasses.dataclass
class QueryWord:
    text: str
    terms: dict  # With what each counts; of a word's terms the one that scores best.


def split(text, code):
    """Words without function words, and runs of characters."""
    listed = function_words().get(code, frozenset())
    text = fold(text) if code == "en" else lower(text, turkish=code == "tr")
    for _, run in runs(text, contractions=code == "en"):
        if isinstance(run, str):
            run = cut(run, MAX_TERM if code == "en" else MAX_WORD)
        if isinstance(run, list) or (plain(run, code) and cut(plain(run, code)) not in listed):
            yield run


def terms_of(text, code):
    found = Terms()
    for run in split(text, code):
        if isinstance(run, str):
            found.terms.append(term_of(run, code))
            found.terms += parts_of(run, code)
            found.words.append(run)
            found.length += 1
        else:
            pairs = [a + b for a, b in itertools.pairwise(run)]
            found.terms += [*pairs, *run] if pairs else run
            found.length += len(pairs or run)
    return found


class Languages:
    """Of a session of messages. `given`: its code, or None to have the texts tell it."""

    def __init__(self, given=None):
        self.given = given if given in LANGUAGES else "en" if given else None
        self.counts = collections.Counter()
        self.used = set()

    def usual(self):
        return self.given or max(LANGUAGES, key=lambda code: self.counts[code])

    def add(self, text, day=None):
        """The terms of a message, in the language that it adds to the session's."""
        code, is_han = detect(text)
        code = self.given or code
        if code:
            self.counts[code] += 1
        else:
            code = self.usual()
        self.used.add(code)
        found = Terms()
        if day:
            found.extend(terms_of(f"{day.day} {day:%B} {day.year}", "en"))
            if code in MONTHS:
                found.extend(terms_of(MONTHS[code].split()[day.month - 1], code))
            elif is_han:
                found.extend(terms_of(f"{day.month}月{day.day}日", code))
        found.extend(terms_of(text, code))
        return found

    def codes(self):
        return [code for code in LANGUAGES if code in self.used] or ["en"]

    def query(self, text, by_word=False):
        """The words to look for, each once: by its terms, or by its text. Function words are left out."""
        codes = self.codes()
        code = "en" if codes == ["en"] else self.given or detect(text)[0] or self.usual()
        wanted = {}
        for run in split(text, code):
            if isinstance(run, list):
                for term, weight in pairs_of_query(run).items():
                    known = wanted.setdefault((term,), QueryWord("", {term: 0}))
                    known.terms[term] = max(known.terms[term], weight)
                continue
            dotted = with_dots(run) if code == "tr" else run
            spelled = {one: run if one == "tr" else dotted for one in codes}
            terms = dict.fromkeys((term_of(spelled[one], one) for one in codes), 1.0)
            key = run if by_word else tuple(terms)
            for one in codes:
                for part, weight in parts_of(spelled[one], one).items():
                    terms.setdefault(part, weight)
            wanted.setdefault(key, QueryWord(run, terms))
        counting = [word for word in wanted.values() if max(word.terms.values()) > 0]
        if not counting:
            for word in wanted.values():
                word.terms = dict.fromkeys(word.terms, 1.0)
        return counting or list(wanted.values())


def in_function_words(run):
    """For each character whether it belongs to a function word; the longest from the left counts."""
    listed = unspaced_function_words()
    longest = max(map(len, listed))
    found, i = [False] * len(run), 0
    while i < len(run):
        size = next((n for n in range(min(longest, len(run) - i), 0, -1)
                     if "".join(run[i:i + n]) in listed), 0)
        found[i:i + size] = [True] * size
        i += max(size, 1)
    return found


def pairs_of_query(run):
    """What the pairs of a run count, and its characters that may be words by themselves."""
    function = in_function_words(run)
    if len(run) == 1:
        return {run[0]: 0.0 if function[0] else 1.0}
    found = collections.defaultdict(float)
    for i in range(len(run) - 1):
        weight = (1, HALF_WEIGHT, 0)[function[i] + function[i + 1]]
        if within(run[i], HIRAGANA) and within(run[i + 1], HIRAGANA):
            weight *= KANA_WEIGHT
        found[run[i] + run[i + 1]] = max(found[run[i] + run[i + 1]], weight)
    for character, known in zip(run, function, strict=True):
        if not known and within(character, HAN):
            found[character] = max(found[character], HAN_WEIGHT)
    return found
