#!/usr/bin/env python3
"""Judges ideas for the ranking by recall of LoCoMo's and BEAM's evidence (docs/adr/0033).

An idea is a function of a conversation and a question that gives the messages' scores or their
order; what is costly is computed once a question. Differences are points; intervals hold 95 % of
10,000 draws of conversations with replacement; then conversations won and lost. Constants were
chosen by the odd conversations, so the even ones are also shown apart.
"""

import argparse
import dataclasses
import functools
import itertools
import pathlib
import re

import numpy as np

import chats
import reference
import words

DRAWS = 10_000
BUDGET = 2000
PASSAGE = 175  # Tokens of the longest passage that Query gives of a text.


@dataclasses.dataclass
class Asked:
    """A question and what each message has for it, not yet weighted."""

    question: chats.Question
    names: set  # Of speakers, in the question.
    rest: str  # The question without these.
    terms: list  # Its words.
    by_word: np.ndarray  # [word, message]
    cosines: np.ndarray
    said: np.ndarray  # 1 where the one named speaker said it.


@dataclasses.dataclass
class Conversation:
    corpus: str
    odd: bool
    chat: chats.Chat
    session: reference.Session
    asked: list

    def __post_init__(self):
        count = self.session.count
        self.before = np.full(count, count)  # count: there is none.
        self.after = np.full(count, count)
        for thread in self.session.threads:
            self.after[thread[:-1]] = thread[1:]
            self.before[thread[1:]] = thread[:-1]
        options, tokens = self.session.options, self.session.tokens
        self.is_user = self.session.is_user
        self.too_long = np.log(np.maximum(1, tokens / options.length_tokens))
        self.share = options.neighbour_weight * np.minimum(1, options.neighbour_tokens / tokens)


def ask(session, question):
    rest, names = reference.without_names(question.text, session.names)
    terms = sorted(set(words.split(rest, "en")))
    if not session.options.expansion:  # Then words of one stem are one.
        terms = list({words.stemmer("en").stemWord(word): word for word in terms}.values())
    by_word = [session._word_scores(word) for word in terms]
    by_word = np.array(by_word) if by_word else np.zeros((1, session.count))
    wanted = session.table.pool(session.table.tokens(rest.lower()), session.token_rarity)
    named = [author for author in set(session.authors) if author & names]
    said = np.array([len(named) == 1 and author == named[0] for author in session.authors], float)
    return Asked(question, names, rest, terms, by_word, session.vectors @ wanted, said)


def prepare(arguments):
    table = reference.Table(arguments.vectors)
    conversations = []
    for corpus, read, expansion in (("LoCoMo", chats.locomo(arguments.locomo), True),
                                    ("BEAM", chats.beam(arguments.beam), False)):
        for number, chat in enumerate(read, 1):
            session = reference.Session(chat.messages, reference.Options(expansion=expansion),
                                        table)
            asked = [ask(session, question) for question in chat.questions if question.counts]
            conversations.append(Conversation(corpus, number % 2 == 1, chat, session, asked))
    return conversations


def own(conversation, asked, *, words=None, cosines=None, user=1.0, length=1.0):
    """What speaks for a message itself, as reference.Session has it."""
    options = conversation.session.options
    words = asked.by_word.sum(0) if words is None else words
    cosines = asked.cosines if cosines is None else cosines
    return (reference.of_largest(words) + options.vector_weight * reference.of_largest(cosines)
            + options.author_weight * asked.said
            + user * options.user_weight * conversation.is_user
            - length * options.length_weight * conversation.too_long)


def with_neighbours(conversation, scores, lent=None):
    """`lent`: what neighbours have to give; their scores unless told."""
    lent = np.append(scores if lent is None else lent, 0)
    given = lent[conversation.before] + lent[conversation.after]
    return scores + conversation.share * given


def today(conversation, asked):
    """The ranking of ADR 22."""
    return with_neighbours(conversation, own(conversation, asked))


def order(scores):
    """The best first, of equals the newest."""
    return len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")


def measure(conversation, asked, ranked):
    evidence = set(asked.question.evidence)
    is_found = np.array([i in evidence for i in ranked])
    measured = {f"at {k}": is_found[:k].mean() * k / len(evidence) for k in (5, 10, 20)}
    measured[asked.question.category] = measured["at 10"]
    gains = 1 / np.log2(np.arange(2, 12))
    measured["nDCG"] = (is_found[:10] @ gains[:len(is_found)]) / gains[:len(evidence)].sum()
    measured["best first"] = float(is_found[0])
    for name, most in (("in 2,000 tokens", np.inf), ("as passages", PASSAGE)):
        left, within = BUDGET, 0
        for place, i in enumerate(ranked[:200]):
            tokens = min(most, conversation.session.tokens[i])
            if tokens <= left:
                left -= tokens
                within += is_found[place]
        measured[name] = within / len(evidence)
    if conversation.corpus == "BEAM":
        replies = {i for i in evidence if not conversation.is_user[i]}
        if replies:
            measured["replies"] = len(replies & set(ranked[:10])) / len(replies)
        newer = set(asked.question.newer)
        if newer and evidence - newer:
            place = {i: n for n, i in enumerate(ranked)}
            measured["newer first"] = float(min(place[i] for i in newer)
                                            < min(place[i] for i in evidence - newer))
    return measured


def evaluate(conversations, variant):
    """For each measure an array of [conversation, (sum, count)], with the corpus in its name."""
    sums = {}
    for n, conversation in enumerate(conversations):
        for asked in conversation.asked:
            ranked = variant(conversation, asked)
            if ranked.dtype.kind == "f":
                ranked = order(ranked)
            for name, value in measure(conversation, asked, ranked).items():
                cells = sums.setdefault((conversation.corpus, name),
                                        np.zeros((len(conversations), 2)))
                cells[n] += value, 1
    return sums


@functools.cache
def draws(count):
    return np.random.default_rng(1).multinomial(count, np.full(count, 1 / count), DRAWS)


def difference(before, after, kept):
    """Points: mean, 95 % interval, conversations won and lost."""
    kept = kept & (before[:, 1] > 0)
    change = (after - before)[kept, 0]
    counts = before[kept, 1]
    drawn = draws(len(change))
    means = 100 * (drawn @ change) / (drawn @ counts)
    low, high = np.percentile(means, [2.5, 97.5])
    return (100 * change.sum() / counts.sum(), low, high, int((change > 1e-9).sum()),
            int((change < -1e-9).sum()))


def mean(sums, kept):
    return 100 * sums[kept, 0].sum() / sums[kept, 1].sum()


# Ideas. Each gives the messages' scores, or their order, from the ranking of ADR 22.


def content(asked):
    return reference.of_largest(asked.by_word.sum(0)) + 0.6 * reference.of_largest(asked.cosines)


def more(conversation, asked, part):
    """With a part of their own for messages, which neighbours get a share of, too."""
    return with_neighbours(conversation, own(conversation, asked) + part)


def answers(conversation, asked, weight=0.2):
    """What follows a question gets a larger share of it."""
    of_questions = np.append(own(conversation, asked) * conversation.session.asks, 0)
    lent = of_questions[conversation.before]
    return today(conversation, asked) + weight / 0.2 * conversation.share * lent


def threads(conversation, asked, weight=0.2, best=3):
    """A thread's messages get a share of the words and vectors of its best ones."""
    scores, likeness = today(conversation, asked), content(asked)
    for thread in conversation.session.threads:
        scores[thread] += weight * np.sort(likeness[thread])[-best:].sum() / best
    return scores


def both(conversation, asked):
    return (answers(conversation, asked) + threads(conversation, asked)
            - today(conversation, asked))


def two_away(conversation, asked, weight=0.1):
    """The second neighbours lend, too."""
    nobody = conversation.session.count
    before = np.append(conversation.before, nobody)[conversation.before]
    after = np.append(conversation.after, nobody)[conversation.after]
    scores = np.append(own(conversation, asked), 0)
    return (today(conversation, asked)
            + weight / 0.2 * conversation.share * (scores[before] + scores[after]))


def larger_neighbour(conversation, asked, weight=0.4):
    """The better one of the neighbours lends, not both."""
    scores = own(conversation, asked)
    lent = np.append(scores, 0)
    lent = np.maximum(lent[conversation.before], lent[conversation.after])
    return scores + weight / 0.2 * conversation.share * lent


def feedback_words(conversation, asked, hits=3, words=5, weight=0.1):
    """The words that weigh most in the best hits are asked as well (RM3)."""
    scores = today(conversation, asked)
    best, session = order(scores)[:hits], conversation.session
    own_stems = set(words.stemmer("en").stemWords(asked.terms))
    weights = {}
    for stem, (where, score) in session.postings.items():
        shares = dict(zip(where, score, strict=True))
        if stem not in own_stems:
            weights[stem] = sum(shares.get(i, 0) * max(0, scores[i]) for i in best)
    part = np.zeros(session.count)
    for stem in sorted(weights, key=weights.get, reverse=True)[:words]:
        where, score = session.postings[stem]
        part[where] += weights[stem] * score
    return more(conversation, asked, weight * reference.of_largest(part))


def feedback_vectors(conversation, asked, hits=3, weight=0.7):
    """The query's vector moves towards those of the best hits (Rocchio)."""
    best = order(today(conversation, asked))[:hits]
    session = conversation.session
    query = session.table.pool(session.table.tokens(asked.rest.lower()), session.token_rarity)
    towards = session.vectors[best].sum(0)
    query = query + weight * towards / np.linalg.norm(towards)
    return with_neighbours(conversation,
                           own(conversation, asked, cosines=session.vectors @ query))


def clauses(conversation, asked, weight=0.2):
    """The best of the question's clauses counts by itself."""
    session = conversation.session
    parts = re.split(r"\b(?:and|or|but|while|when|after|before|since)\b|[,;?.:]", asked.rest)
    parts = [part for part in parts if len(list(words.split(part, "en"))) > 1]
    if len(parts) < 2:
        return today(conversation, asked)
    stems = words.stemmer("en").stemWords(asked.terms)
    likeness = []
    for part in parts:
        of_part = set(words.stemmer("en").stemWords(list(words.split(part, "en"))))
        chosen = [n for n, stem in enumerate(stems) if stem in of_part]
        wanted = session.table.pool(session.table.tokens(part.strip().lower()),
                                    session.token_rarity)
        likeness.append(reference.of_largest(asked.by_word[chosen].sum(0))
                        + 0.6 * reference.of_largest(session.vectors @ wanted))
    return more(conversation, asked, weight * np.max(likeness, axis=0))


def rarity_power(conversation, asked, power=0.5):
    """A word weighs its rarity to another power."""
    session = conversation.session
    rarity = np.array([session.rarity.get(stem, session._rarity(0))
                       for stem in words.stemmer("en").stemWords(asked.terms)] or [1.0])
    weighted = (rarity / rarity.max()) ** (power - 1) @ asked.by_word
    return with_neighbours(conversation, own(conversation, asked, words=weighted))


ASKS_FOR_REPLY = re.compile(
    r"\byou (?:\w+ ){0,2}?(?:recommend|suggest|advi[sc]e|sa(?:y|id)|t[eo]ll?d?|g[ia]ve|mention"
    r"|list|propose|explain|describe|outline|help)|\byour (?:advice|recommendation|suggestion"
    r"|answer|reply|explanation|response)", re.IGNORECASE)


def assistant_asked(conversation, asked, length=1.0):
    """No weight for users' turns where the question is for what the assistant said."""
    if not ASKS_FOR_REPLY.search(asked.question.text):
        return today(conversation, asked)
    return with_neighbours(conversation, own(conversation, asked, user=0, length=length))


def centred(conversation, asked, share=0.3):
    """Vectors without a share of the session's mean."""
    vectors = conversation.session.vectors
    vectors = vectors - share * vectors.mean(0)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    session = conversation.session
    query = session.table.pool(session.table.tokens(asked.rest.lower()), session.token_rarity)
    return with_neighbours(conversation,
                           own(conversation, asked, cosines=vectors / lengths @ query))


TIMES = re.compile(r"\b(yesterday|today|tonight|tomorrow|last|next|ago|week(?:end)?|month|year"
                   r"|since|\w+day|january|february|march|april|may|june|july|august|september"
                   r"|october|november|december|\d{4})\b", re.IGNORECASE)


def when(conversation, asked, weight=0.2):
    """Messages with words of time, where the question is when."""
    if not re.match(r"\s*when\b|.*\b(what (date|day|time|month|year)|how long)\b",
                    asked.question.text, re.IGNORECASE):
        return today(conversation, asked)
    timely = [bool(TIMES.search(message.text)) for message in conversation.chat.messages]
    return more(conversation, asked, weight * np.array(timely, float))


def questions_less(conversation, asked, weight=0.1):
    """Questions are no answers."""
    return more(conversation, asked, -weight * np.array(conversation.session.asks, float))


def diverse(conversation, asked, weight=0.1, depth=50, places=20):
    """A hit pays for its likeness to those before it (MMR)."""
    scores, vectors = today(conversation, asked), conversation.session.vectors
    ranked = list(order(scores))
    left, chosen, like = ranked[:depth], [], np.zeros(len(scores))
    while left and len(chosen) < places:
        chosen.append(max(left, key=lambda i: scores[i] - weight * like[i]))
        left.remove(chosen[-1])
        like = np.maximum(like, vectors @ vectors[chosen[-1]])
    taken = set(chosen)
    return np.array(chosen + [i for i in ranked if i not in taken])


def newer_first(conversation, asked, cosine=0.7, depth=5):
    """Of hits by both rules that are nearly the same the newer one comes first."""
    ranked = order(both(conversation, asked))
    vectors, top = conversation.session.vectors, list(ranked[:depth])
    for a, b in itertools.combinations(range(len(top)), 2):
        older, newer = top[a], top[b]
        if (newer > older and conversation.is_user[newer] == conversation.is_user[older]
                and vectors[newer] @ vectors[older] >= cosine):
            top[a], top[b] = newer, older
    ranked[:depth] = top
    return ranked


IDEAS = {idea.__name__: idea for idea in (
    answers, threads, both, two_away, larger_neighbour, feedback_words, feedback_vectors, clauses,
    rarity_power, assistant_asked, centred, when, questions_less, diverse, newer_first)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", default="build/share/memoryd/l2_supercat_256.safetensors")
    parser.add_argument("--locomo", type=pathlib.Path, required=True, help="locomo10.json")
    parser.add_argument("--beam", type=pathlib.Path, required=True,
                        help="the folder of BEAM's 100K chats")
    parser.add_argument("--only", nargs="+", default=list(IDEAS), choices=list(IDEAS))
    parser.add_argument("--onto", choices=list(IDEAS), help="what they are compared with")
    return parser


def main():
    arguments = parse().parse_args()
    conversations = prepare(arguments)
    everyone = np.ones(len(conversations), bool)
    even = np.array([not conversation.odd for conversation in conversations])
    before = evaluate(conversations, IDEAS.get(arguments.onto, today))
    print("before: " + "; ".join(f"{corpus} {name} {mean(sums, everyone):.1f}"
                                 for (corpus, name), sums in before.items()))
    for name in arguments.only:
        print(name, IDEAS[name].__defaults__ or "")
        after = evaluate(conversations, IDEAS[name])
        for of, sums in before.items():
            texts = []
            for kept in (everyone, even):
                points, low, high, won, lost = difference(sums, after[of], kept)
                texts.append(f"{points:+.1f} {{{low:.1f}, {high:.1f}}} {won}/{lost}")
            if texts[0] != "+0.0 {0.0, 0.0} 0/0":
                print(f"  {of[0]} {of[1]}: {texts[0]}; even ones {texts[1]}", flush=True)


if __name__ == "__main__":
    main()
