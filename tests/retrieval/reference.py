"""The ranking of a session's messages in plain numpy: every score of every message.

It is made without memoryd's code, from the same description (docs/adr/0022), and with the
tokenizers and stemmers of other libraries, so that compare.py can hold one against the other.
words.py has what it does with the words of each language.
"""

import collections
import dataclasses
import datetime
import itertools
import pathlib
import re

import numpy as np
import safetensors.numpy
import tokenizers

import words

ROLES = {"ai", "assistant", "bot", "developer", "function", "human", "model", "system", "tool",
         "user"}

LIKE_WORDS = 20
LEAST_LIKENESS = 0.3
BEST_OF_THREAD = 3


@dataclasses.dataclass
class Options:
    """As core/model/ranking_options.h has them."""

    bm25_k1: float = 0.9
    bm25_b: float = 0.4
    vector_weight: float = 0.6
    vector_threshold: float = -1
    author_weight: float = 0.8
    neighbour_weight: float = 0.2
    neighbour_tokens: float = 100
    length_weight: float = 0.35
    length_tokens: float = 100
    user_weight: float = 0.2
    answer_factor: float = 2
    thread_weight: float = 0.2
    recency_weight: float = 0
    expansion: bool = True
    dates: bool = True
    language: str = ""  # Empty: the texts tell it.


@dataclasses.dataclass
class Message:
    speaker: str
    text: str
    thread: str = ""
    day: datetime.date | None = None


class Table:
    """The vectors of tokens."""

    def __init__(self, file):
        tokenizer = pathlib.Path(file).with_suffix(".tokenizer.json")
        self.tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        rows = safetensors.numpy.load_file(file)
        self.rows = rows["embedding.weight"].astype(np.float32)
        self.word_cache = {}

    def tokens(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def pool(self, tokens, weights=None):
        """The sum of the tokens' vectors, each by its weight, of length 1."""
        if not tokens:
            return np.zeros(self.rows.shape[1], np.float32)
        rows = self.rows[tokens]
        if weights is not None:
            rows = rows * weights[tokens, None]
        total = rows.sum(0)
        return total / max(np.linalg.norm(total), 1e-9)

    def word(self, word):
        if word not in self.word_cache:
            self.word_cache[word] = self.pool(self.tokens(word))
        return self.word_cache[word]


def lower_case(text):
    """Character by character, as vectors are made of it: Python makes two of the Turkish İ."""
    return text.replace("İ", "i").lower()


def name_words(speaker):
    return frozenset(speaker.lower().split())


def without_names(query, names):
    """The query without the words that are names, and these."""
    kept, seen = [], set()
    for word in query.split():
        name = re.sub("('s|\u2019s)?[^a-z]*$", "", word.lower())
        if name in names:
            seen.add(name)
        else:
            kept.append(word)
    return " ".join(kept) or query, seen


def of_largest(scores):
    largest = scores.max(initial=0)
    return scores / largest if largest > 0 else np.zeros_like(scores)


class Session:
    """`table`: None to rank by words alone. `bits`: of a number in a message's vector."""

    def __init__(self, messages, options, table=None, bits=None):
        self.options, self.table = options, table
        self.count = len(messages)
        self.languages = words.Languages(options.language or None)
        texts = [message.text for message in messages]
        documents = [self.languages.add(message.text, message.day if options.dates else None)
                     for message in messages]
        self._index_words(documents)
        if table is not None:
            self._index_vectors(texts, bits)
            self._index_vocabulary(documents)

        self.authors = [name_words(message.speaker) for message in messages]
        self.names = frozenset().union(*self.authors) - ROLES if messages else frozenset()
        roles_only = all(message.speaker.lower() in ROLES for message in messages)
        self.is_user = np.array([roles_only and message.speaker.lower() in ("user", "human")
                                 for message in messages], float)
        self.tokens = np.array([max(1, len(text) / 4) for text in texts])
        self.asks = [text.rstrip(" \t\n\v\f\r").endswith(("?", "\uff1f", "\u061f"))
                     for text in texts]
        threads = collections.defaultdict(list)
        for i, message in enumerate(messages):
            threads[message.thread].append(i)
        self.threads = list(threads.values())

    def _index_words(self, documents):
        options = self.options
        lengths = np.array([document.length for document in documents], float)
        usual = max(lengths.mean(), 1e-9) if len(lengths) else 1
        postings = collections.defaultdict(dict)
        for i, document in enumerate(documents):
            for term, count in collections.Counter(document.terms).items():
                postings[term][i] = count
        self.rarity, self.postings = {}, {}
        for term, counts in postings.items():
            where = np.array(list(counts))
            count = np.array(list(counts.values()), float)
            norm = options.bm25_k1 * (1 - options.bm25_b + options.bm25_b * lengths[where] / usual)
            self.rarity[term] = self._rarity(len(counts))
            score = self.rarity[term] * (options.bm25_k1 + 1) * count / (count + norm)
            self.postings[term] = where, score

    def _rarity(self, documents):
        return np.log(1 + (self.count - documents + 0.5) / (documents + 0.5))

    def _index_vectors(self, texts, bits):
        tokens = [self.table.tokens(lower_case(text)) for text in texts]
        self.vectors = np.stack([self.table.pool(of_text) for of_text in tokens])
        if bits:
            scale = np.abs(self.vectors).max(1, keepdims=True) / (2 ** (bits - 1) - 1)
            self.vectors = np.rint(self.vectors / np.maximum(scale, 1e-12)) * scale
        documents = np.zeros(len(self.table.rows))
        for of_text in tokens:
            documents[list(set(of_text))] += 1
        self.token_rarity = self._rarity(documents).astype(np.float32)

    def _index_vocabulary(self, documents):
        self.vocabulary = sorted({word for document in documents for word in document.words})
        if not self.vocabulary:
            return
        vectors = np.stack([self.table.word(word) for word in self.vocabulary])
        self.mean = vectors.mean(0)
        centred = vectors - self.mean
        lengths = np.linalg.norm(centred, axis=1, keepdims=True)
        self.centred = centred / np.maximum(lengths, 1e-9)

    def _raise(self, scores, term, weight):
        """To the term's scores, where they are less."""
        if term in self.postings:
            where, score = self.postings[term]
            scores[where] = np.maximum(scores[where], weight * score)

    def _word_scores(self, query):
        total = np.zeros(self.count)
        expands = self.table is not None and self.options.expansion and self.vocabulary
        for word in self.languages.query(query, by_word=expands):
            of_word = np.zeros(self.count)
            for term, weight in word.terms.items():
                self._raise(of_word, term, weight)
            if expands and word.text:
                self._raise_like_words(of_word, word)
            total += of_word
        return total

    def _raise_like_words(self, of_word, word):
        own = {term for term, weight in word.terms.items() if weight == 1}
        own_rarity = min(self.rarity.get(term, self._rarity(0)) for term in own)
        wanted = self.table.word(word.text) - self.mean
        cosines = self.centred @ (wanted / np.linalg.norm(wanted))
        for i in np.argsort(-cosines, kind="stable")[:LIKE_WORDS]:
            if cosines[i] < LEAST_LIKENESS:
                break
            for code in self.languages.codes():
                like = words.term_of(self.vocabulary[i], code)
                if like in own or like not in self.rarity:
                    continue
                own.add(like)
                weight = (cosines[i] - LEAST_LIKENESS) / (1 - LEAST_LIKENESS)
                weight *= min(own_rarity, self.rarity[like]) / self.rarity[like]
                self._raise(of_word, like, weight)

    def ranking(self, query):
        """The hits as (index, score), the best first and of equals the newest: what something speaks
        for, be it only beside it."""
        scores, is_hit = self._scores(query)
        order = sorted(range(self.count), key=lambda i: (-scores[i], -i))
        return [(i, scores[i]) for i in order if is_hit[i]]

    def _scores(self, query):
        options = self.options
        rest, seen = without_names(query, self.names)
        scores = of_largest(self._word_scores(rest))
        is_hit = scores > 0
        if self.table is not None:
            wanted = self.table.pool(self.table.tokens(lower_case(rest)), self.token_rarity)
            cosines = self.vectors @ wanted
            scores = scores + options.vector_weight * of_largest(cosines)
            is_hit = is_hit | (cosines >= options.vector_threshold)
        likeness = scores
        named = [author for author in set(self.authors) if author & seen]
        if len(named) == 1:
            said = np.array([author == named[0] for author in self.authors])
            scores = scores + options.author_weight * said
            is_hit = is_hit | (options.author_weight * said > 0)
        scores = scores + options.user_weight * self.is_user
        scores = scores + options.recency_weight * np.arange(self.count) / max(1, self.count - 1)
        longer = np.maximum(1, self.tokens / options.length_tokens)
        scores = scores - options.length_weight * np.log(longer)
        return self._with_neighbours(scores) - self._behind(likeness), is_hit

    def _with_neighbours(self, scores):
        share = np.full(self.count, self.options.neighbour_weight)
        if self.options.neighbour_tokens:
            share = share * np.minimum(1, self.options.neighbour_tokens / self.tokens)
        final = scores.copy()
        for thread in self.threads:
            for before, after in itertools.pairwise(thread):
                of_question = self.options.answer_factor if self.asks[before] else 1
                final[before] += share[before] * scores[after]
                final[after] += share[after] * of_question * scores[before]
        return final

    def _behind(self, likeness):
        """What is taken from each message for its thread, where another has more to say."""
        best = np.array([np.sort(np.maximum(0, likeness[thread]))[-BEST_OF_THREAD:].sum()
                         / BEST_OF_THREAD for thread in self.threads])
        behind = np.zeros(self.count)
        for thread, of_thread in zip(self.threads, best, strict=True):
            behind[thread] = self.options.thread_weight * (best.max() - of_thread)
        return behind
