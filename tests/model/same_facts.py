#!/usr/bin/env python3
"""How alike an embedder finds facts that say the same, and facts that differ in what matters.

usage: same_facts.py

Prints the cosines of both kinds of pairs with all-MiniLM-L6-v2. From a cosine on a fact counts as
known; how it was chosen is said in core/blocks/same_facts.h. Run by the Python that `make test-model`
makes.
"""

from __future__ import annotations

from minilm_server import MiniLm, model_folder

SAME = (
    ("Nora lives in Bergen.", "Nora is living in Bergen."),
    ("Nora lives in Bergen.", "Nora's home is in Bergen."),
    ("Nora lives in Bergen.", "Bergen is where Nora lives."),
    ("The user is allergic to peanuts.", "The user has a peanut allergy."),
    ("The user is allergic to peanuts.", "User is allergic to peanuts"),
    ("Anders works for a shipping company.", "Anders is employed by a shipping company."),
    ("The choir rehearses on Wednesdays at seven.", "On Wednesdays at seven the choir rehearses."),
    ("Ann prefers tea to coffee.", "Ann likes tea better than coffee."),
    ("Ann prefers tea to coffee.", "Ann prefers tea over coffee."),
    ("The cat is called Miso.", "The cat's name is Miso."),
    ("The cat is called Miso.", "Miso is the name of the cat."),
    ("The user's birthday is 2 June 1990.", "The user was born on 2 June 1990."),
    ("The team uses PostgreSQL in production.", "In production the team uses PostgreSQL."),
    ("The team uses PostgreSQL in production.", "PostgreSQL is the team's production database."),
    ("Bob is a vegetarian.", "Bob does not eat meat."),
    ("Bob is a vegetarian.", "Bob is vegetarian."),
    ("Maria's daughter Lena goes to school.", "Lena, Maria's daughter, attends school."),
    ("The user wants to learn Italian.", "The user would like to learn Italian."),
    ("The user drives a red Volvo.", "The user's car is a red Volvo."),
    ("The invoice of 840 crowns is paid.", "The 840 crowns invoice has been paid."),
    ("The meeting was moved to 4 March 2026.", "The meeting has been moved to 4 March 2026."),
    ("Tom plays the violin.", "Tom is a violin player."),
)
DIFFERENT = (
    ("Nora lives in Bergen.", "Nora lives in Oslo."),
    ("Nora lives in Bergen.", "Anders lives in Bergen."),
    ("Nora lives in Bergen.", "Nora works in Bergen."),
    ("Nora lives in Bergen.", "Nora lived in Bergen until 2020."),
    ("Nora lives in Bergen.", "Nora no longer lives in Bergen."),
    ("The user is allergic to peanuts.", "The user is not allergic to peanuts."),
    ("The user is allergic to peanuts.", "The user is allergic to walnuts."),
    ("The user is allergic to peanuts.", "The user's son is allergic to peanuts."),
    ("Anders works for a shipping company.", "Anders left a shipping company."),
    ("The choir rehearses on Wednesdays at seven.", "The choir rehearses on Thursdays at seven."),
    ("The choir rehearses on Wednesdays at seven.", "The choir rehearses on Wednesdays at eight."),
    ("Ann prefers tea to coffee.", "Ann prefers coffee to tea."),
    ("Ann prefers tea to coffee.", "Ann drinks tea and coffee."),
    ("The cat is called Miso.", "The dog is called Miso."),
    ("The cat is called Miso.", "The cat is called Mimo."),
    ("The user's birthday is 2 June 1990.", "The user's birthday is 3 June 1990."),
    ("The user's birthday is 2 June 1990.", "The user's birthday is 2 July 1990."),
    ("The team uses PostgreSQL in production.", "The team uses PostgreSQL in tests."),
    ("The team uses PostgreSQL in production.", "The team uses MySQL in production."),
    ("Bob is a vegetarian.", "Bob is no vegetarian."),
    ("Bob is a vegetarian.", "Bob is a veterinarian."),
    ("Maria's daughter Lena goes to school.", "Maria's son Leon goes to school."),
    ("The user wants to learn Italian.", "The user wants to learn Spanish."),
    ("The user wants to learn Italian.", "The user does not want to learn Italian."),
    ("The user drives a red Volvo.", "The user drives a blue Volvo."),
    ("The invoice of 840 crowns is paid.", "The invoice of 840 crowns is not paid."),
    ("The invoice of 840 crowns is paid.", "The invoice of 480 crowns is paid."),
    ("The meeting was moved to 4 March 2026.", "The meeting was moved to 5 March 2026."),
    ("The meeting was moved to 4 March 2026.", "The meeting was moved from 4 March 2026."),
    ("Tom plays the violin.", "Tom plays the viola."),
    ("Tom loves Anna.", "Anna loves Tom."),
    ("Alice lent Bob 50 euros.", "Bob lent Alice 50 euros."),
)


def main() -> None:
    model = MiniLm(model_folder())

    def similarity(pair: tuple[str, str]) -> float:
        a, b = (model.embed(model.tokens(text)) for text in pair)
        return sum(x * y for x, y in zip(a, b, strict=True))

    for name, pairs in (("same", SAME), ("different", DIFFERENT)):
        for value, pair in sorted((similarity(pair), pair) for pair in pairs):
            print(f"{name:<10} {value:.3f}  {pair[0]}  |  {pair[1]}")


if __name__ == "__main__":
    main()
