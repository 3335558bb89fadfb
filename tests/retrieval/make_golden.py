#!/usr/bin/env python3
"""Writes the rankings that core/retrieval/ranking_golden_test.cc expects, by reference.py."""

import argparse
import datetime
import json
import pathlib

import reference

GOLDEN = (pathlib.Path(__file__).resolve().parents[2]
          / "core/retrieval/testdata/rankings.json")
TOP = 10

# Speaker and text by day, each day a thread.
FRIENDS = {
    datetime.date(2023, 5, 8): [
        ("Ann Lee", "Hi Bob! I went to the pottery class on Monday, at last."),
        ("Bob", "Nice! What did you make?"),
        ("Ann Lee", "A bowl – and it didn\u2019t crack in the kiln."),
        ("Bob", "Wow. I'm still looking for a dog-sitter, Rex can't stay alone."),
        ("Ann Lee", "My sister Zoë loves dogs; she could take him."),
    ],
    datetime.date(2023, 6, 21): [
        ("Bob", "Rex spent the week with your sister, and he came back fat."),
        ("Ann Lee", "She bakes for him. Her café opened last month, by the way."),
        ("Bob", "Where is it? I'd love a decent cappuccino."),
        ("Ann Lee", "In Elm Street, next to the old cinema."),
        ("Bob", "We ran our first half-marathon in 2019, remember? From there to the river."),
        ("Ann Lee", "I do! My knees remember as well."),
    ],
    datetime.date(2024, 1, 2): [
        ("Bob", "Happy New Year! Any resolutions?"),
        ("Ann Lee", "Painting every day. Yesterday I sold my first watercolour."),
        ("Bob", "Congratulations! Mine is to learn the cello, my teacher's called Ms Ito."),
        ("Ann Lee", "The cello's lovely. How much does such an instrument cost?"),
        ("Bob", "I rent one for 40 euros a month."),
        ("Ann Lee", "I saw a black cat today – in Kyoto!"),
    ],
}
FRIENDS_QUESTIONS = [
    "What did Ann make in her pottery class?", "Who took care of Bob's dog?",
    "Where is the café of Ann's sister?", "When did Bob start to play music?",
    "What instrument does Bob rent?", "What happened on 21 June 2023?",
    "Which art has Ann sold?", "Did they run a race together?", "Ann", "coffee", "kitten",
    "How much is the rent?",
]

LONG = ("Here is a plan. First you split the monolith into services, each with a database of its own. "
        "Then you put a queue between them, so that an order is accepted even when the warehouse is "
        "down. Measure before you tune: most latency comes from chatty calls, not from the language. ")
ASSISTANT = [
    ("user", "My shop is written in Django, and the checkout takes four seconds."),
    ("assistant", LONG * 2 + "For Django in particular, look at select_related and at N+1 queries."),
    ("user", "We sell about 300 orders a day, mostly coffee machines."),
    ("assistant", LONG + "With 300 orders a day one PostgreSQL server is plenty."),
    ("user", "I prefer answers in bullet points, please."),
    ("assistant", "- Understood.\n- Bullets from now on."),
    ("user", "Our warehouse moved from Leeds to York on 3 March."),
    ("assistant", "- Noted: York.\n- Update the shipping addresses and the carrier's contract."),
    ("user", "How do I cache the product pages?"),
    ("assistant", "- " + LONG * 3 + "\n- Use Redis with a short time to live for product pages."),
    ("tool", "{\"orders\": 312, \"latency_ms\": 3900}"),
]
ASSISTANT_QUESTIONS = [
    "How many orders do I get each day?", "Where is my warehouse?", "How slow is my checkout?",
    "Which cache did you recommend?", "How should answers be formatted?",
    "What does the user sell?", "django database queries",
]

# Of several languages, which the texts tell.
MIXED = {
    datetime.date(2024, 3, 14): [
        ("Jana", "Hallo! Ich habe gestern zwei alte Bücher über Gärten auf dem Flohmarkt gefunden."),
        ("Luis", "¡Qué bien! Yo estoy leyendo cuentos de un escritor argentino que me regaló mi hermana."),
        ("Jana", "Der Linseneintopf von deiner Mutter schmeckte uns allen sehr gut."),
        ("Luis", "Se lo diré. Ella cocina lentejas cada domingo, y a veces también unos garbanzos."),
        ("Jana", "Oleg schrieb: «Я переезжаю в Казань и ищу там недорогую квартиру с балконом»."),
        ("Luis", "Я помогу ему с переездом, у меня есть грузовик."),
    ],
    datetime.date(2024, 8, 2): [
        ("Jana", "Mein Fahrrad wurde gestohlen, und die Versicherung erstattet nur die Hälfte."),
        ("Luis", "Lo siento mucho. ¿Lo has denunciado ya a la policía?"),
        ("Jana", "Ja. L'agent m'a dit que les vols de vélos sont très fréquents dans notre rue."),
        ("Luis", "我的猫昨天在北京动物医院做了手术，现在很好。"),
        ("Jana", "İzmir'de bir arkadaşım var, kedisi de hastaydı ama şimdi iyi."),
        ("Luis", "We should visit her; the gardens of Izmir are lovely in spring."),
    ],
}
MIXED_QUESTIONS = [
    "Welches Buch hat Jana gefunden?", "¿Qué cuento lee Luis?", "Wie war der Eintopf?",
    "¿Quién cocina garbanzo y lenteja?", "Куда переезжает Олег?", "Какие квартиры ищут?",
    "Wie hoch ist die Erstattung der Versicherungen?", "Was geschah im August 2024?",
    "¿Qué pasó el 14 de marzo?", "Les policiers parlent de quel vol de vélo ?", "猫怎么样了？",
    "什么时候做的手术", "Arkadaşın kedisine ne oldu?", "Which garden is lovely?", "bucher garten",
    "izmir", "何ですか",
]

# Capitals that Turkish has otherwise, many numbers, forms and code.
DETAILS = {
    datetime.date(2024, 11, 5): [
        ("Ayla", "FATURALAR masanın üstünde, ama IŞIK faturası eksik."),
        ("Tom", "Shoe size: 42. Shirt size: L, hat size: M"),
        ("Tom", "var total = 1; var invoices = total * 2; var paid = 3;"),
        ("Igor", "Встреча 12.05 в 14:30, кабинет 7."),
        ("Tom", "The invoices of 2023 are in the drawer below my desk."),
        ("Mei", "会议 2024 12 05 14 30"),
        ("Ayla", "Bu kadar INVOICE için bir dosya da var."),
        ("Tom", "- name: ci\n  image: ci/base\n  script: ci/run 8080 443 22"),
        ("Mei", "서울에서 만나요"),
    ],
}
DETAILS_QUESTIONS = [
    "INVOICES bu masada ama nerede?", "ışık faturaları", "IŞIK", "which size are his shirts?",
    "встречи в кабинетах", "14:30", "11月5日", "何の会议", "paid totals", "ci images", "서울",
    "5 November",
]


def microseconds(day):
    noon = datetime.datetime.combine(day, datetime.time(12), datetime.timezone.utc)
    return int(noon.timestamp()) * 1_000_000


def chat(messages, questions, table):
    # Expansion is for chats in which speakers have names.
    expansion = not all(message.speaker in reference.ROLES for message in messages)
    options = reference.Options(expansion=expansion)
    written = {"messages": [], "questions": []}
    for message in messages:
        entry = {"name": message.speaker, "thread_id": message.thread, "text": message.text}
        if message.day:
            entry["create_us"] = microseconds(message.day)
        written["messages"].append(entry)
    for text in questions:
        question = {"text": text}
        for name, of in (("with_vectors", table), ("without_vectors", None)):
            session = reference.Session(messages, options, of)
            question[name] = [[place, round(float(score), 5)]
                              for place, score in session.ranking(text)[:TOP]]
        written["questions"].append(question)
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", default="build/share/memoryd/l2_supercat_256.safetensors")
    table = reference.Table(parser.parse_args().vectors)
    friends = [reference.Message(speaker, text, day.isoformat(), day)
               for day, said in FRIENDS.items() for speaker, text in said]
    assistant = [reference.Message(speaker, text) for speaker, text in ASSISTANT]
    mixed = [reference.Message(speaker, text, day.isoformat(), day)
             for day, said in MIXED.items() for speaker, text in said]
    details = [reference.Message(speaker, text, day.isoformat(), day)
               for day, said in DETAILS.items() for speaker, text in said]
    golden = {"friends": chat(friends, FRIENDS_QUESTIONS, table),
              "assistant": chat(assistant, ASSISTANT_QUESTIONS, table),
              "mixed": chat(mixed, MIXED_QUESTIONS, table),
              "details": chat(details, DETAILS_QUESTIONS, table)}
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
