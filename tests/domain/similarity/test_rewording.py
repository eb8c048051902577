"""Repetitions in other words and another order, and what must not be taken for one."""

from __future__ import annotations

import pytest

from reverie import Memory
from reverie.domain.similarity.comparison import compute_keys, is_repetition, normalize


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("his commute takes 45 minutes", "His commute takes 45 min"),
        ("Ana's late on Mondays", "Ana is late on Mondays"),
        ("He's been a member since 2015", "He has been a member since 2015"),
        ("Ana has got two dogs", "Ana has two dogs"),
        ("Reviews take around 3 days", "Reviews take about three days"),
        ("The library opens at 9 o'clock", "The library opens at nine"),
        ("It is a 20-minute walk", "It is a 20 minute walk"),
        ("If Ada's away, Piet signs", "If Ada is away, Piet signs"),
        ("He'd rather walk than drive", "He would rather walk than drive"),
        ("Speaks German, Danish and French", "Speaks German, French and Danish"),
        ("Speaks French, German and Danish", "Speaks German, French and Danish"),
        ("Shopping: eggs, flour and butter", "Shopping: eggs, flour, butter"),
        ("Ines services the boiler every autumn", "The boiler is serviced by Ines every autumn"),
        ("the tank holds 40 litres", "The tank holds 40 l"),
        ("Rent is 1,140 euros", "Rent is €1,140"),
        ("2 reviewers per pull request", "Two reviewers per pull request"),
        ("The lease runs for 24 months", "The lease runs for twenty-four months"),
        ("Offsite begins on September 9", "Offsite begins on Sept 9"),
        ("Choir practice on Wednesday", "Choir practice on Wed"),
        ("The repository has no CI", "The repo has no CI"),
        ("On Sundays, he visits his mother in Derby", "He visits his mother in Derby on Sundays"),
        ("Every night the cron job restarts the proxy", "The cron job restarts the proxy every night"),
        ("Speaks Turkish and Greek", "Speaks Greek and Turkish"),
        ("The invoices are approved by Henrike", "Henrike approves the invoices"),
        ("btw we use ruff for linting", "We use ruff for linting"),
        ("Also, we use ruff for linting", "We use ruff for linting"),
        ("Don't forget: the code is 12", "The code is 12"),
        ("She organises the new catalogue", "She organizes the new catalog"),
        ("His favourite flavour is lime", "His favorite flavor is lime"),
        ("If the build fails, ping Lou", "Ping Lou if the build fails"),
        ("After lunch the team walks", "The team walks after lunch"),
        ("Flies with Kim to Oslo on Friday", "Flies to Oslo with Kim on Friday"),
        ("Allergic to sesame, cashews and walnuts", "Allergic to walnuts, cashews and sesame"),
        ("The backup runs at midnight", "The backup runs at 00:00"),
        ("Standup at 9:30 am", "Standup at 09:30"),
        ("prefere etre appelee le soir", "Préfère être appelée le soir"),
        ("Usually we eat at seven", "We usually eat at seven"),
        ("My brother usually cooks", "Usually my brother cooks"),
        ("The audit is on 1/15/2027", "The audit is on January 15, 2027"),
        ("The lease ends 31.12.2027", "The lease ends 31 December 2027"),
        ("Turnover was $2 million", "Turnover was 2 million dollars"),
        ("A dozen eggs and two thousand plates", "12 eggs and 2000 plates"),
        ("The neighbour's cat is called Miso", "The neighbor's cat is called Miso"),
        ("Nadia is our CTO", "Our CTO is Nadia"),
        ("Dr. Brandt ist mein Hausarzt", "Mein Hausarzt ist Dr. Brandt"),
        ("The piano class is taught by Mr Hale", "Mr Hale teaches the piano class"),
        ("decision - keep the monolith.", "Decision: keep the monolith"),
        ("Wohnt in der Goethestraße 14", "Wohnt in der Goethestr. 14"),
        ("my sister is called Ada", "My sister's name is Ada"),
        ("The rent is due on the first of every month", "Rent is due on the 1st of each month"),
        ("Mum's birthday is on May 4th", "Mum's birthday is 4 May"),
        ("We deploy on Fridays", "We deploy every Friday"),
        ("Ben does not drink any alcohol", "Ben doesn't drink alcohol"),
        ("The budget is €20k", "The budget is 20,000 euros"),
        ("Just a reminder that the code is 12", "The code is 12"),
        ("Die Rechnungen werden von Frau Seidel geprüft", "Frau Seidel prüft die Rechnungen"),
        ("Las facturas son revisadas por Ana", "Ana revisa las facturas"),
        ("Les factures sont vérifiées par Léa", "Léa vérifie les factures"),
        ("Paula hat 2 Katzen", "Paula hat zwei Katzen"),
        ("Ich gehe montags schwimmen", "Montags gehe ich schwimmen"),
        ("Je télétravaille le lundi", "Le lundi je télétravaille"),
        ("Habla portugués e inglés", "Habla inglés y portugués"),
        ("Der Termin ist am 03.05.", "Der Termin ist am 3. Mai"),
        ("Die Miete beträgt 780€", "Die Miete beträgt 780 Euro"),
        ("Die Sitzung beginnt um 15:00 Uhr", "Die Sitzung beginnt um 15 Uhr"),
        ("La réunion est à 15 h", "La réunion est à 15h"),
        ("Paula kocht jeden Freitag", "Jeden Freitag kocht Paula"),
        ("Ana limpia la casa", "La casa es limpiada por Ana"),
        ("Oslo office - 14 seats", "Oslo office: 14 seats"),
        ("The flat is on the 2nd floor", "The flat is on the second floor"),
    ],
)
def test_the_same_in_other_words_is_folded_and_found_by_its_keys(new: str, old: str) -> None:
    assert is_repetition(normalize(new), normalize(old))
    assert set(compute_keys(normalize(new))) & set(compute_keys(normalize(old)))
    with Memory.open(":memory:") as memory:
        memory.save(old)
        assert memory.save(new).outcome == "reinforced"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Allergic to peanuts", "Allergic to peanuts. Grew out of it in 2020."),
        ("Run the linter in ..", "Run the linter in ."),
        ("The template has `{}` at its end", "The template has `[]` at its end"),
        ("Pass `args` to it", "Pass `args[]` to it"),
        ("In Masse bestellen", "In Maße bestellen"),
        ("Ana beat Tom", "Tom beat Ana"),
        ("Sometimes Ana says Tom lies", "Ana says Tom sometimes lies"),
        ("Usually Tom cooks and Ana washes", "Tom cooks and usually Ana washes"),
        ("The audit is on 5/6/2027", "The audit is on 5 June 2027"),
        ("Ada's car", "Ada was car"),
        ("Plays on team a", "Plays on team"),
        ("Reviews take around 3 days", "Reviews take over 3 days"),
        ("Walks around 3 lakes", "Walks 3 lakes"),
        ("Ana got two dogs", "Ana has two dogs"),
        ("Copy a b", "Copy b a"),
        ("Guests: Ada, Ben and my son", "Guests: Ada, Ben, my son"),
        ("Speaks German, French or Danish", "Speaks German, French, Danish"),
        ("The song of Rome is sung by fans", "Fans of Rome sing the song"),
        ("The song is sung by fans of Rome", "Fans sing the song of Rome"),
        ("Two hundred guests came", "Two guests came"),
        ("Kim will re-sign", "Kim will resign"),
        ("Filling the form", "Filing the form"),
        ("Sends to Bo for Ana", "Sends to Ana for Bo"),
        ("El ano es 5", "El año es 5"),
        ("Lunch at noon", "Lunch at midnight"),
        ("Build first and test second", "Test first and build second"),
        ("The invoices are approved by Henrike", "The invoices approve Henrike"),
        ("Authors: Mary, Lou, Ben", "Authors: Mary Lou, Ben"),
        ("The retry waits 500 s", "The retry waits 500 ms"),
        ("Flies from Oslo to Rome in May", "Flies from Rome to Oslo in May"),
        ("Likes green coffee and tea", "Likes green tea and coffee"),
        ("Buy two pears and apples", "Buy two apples and pears"),
        ("We deploy and build", "We build and deploy"),
        ("Needs to wash and dry it", "Needs to dry and wash it"),
        ("Needs dog and cat food", "Needs cat and dog food"),
        ("We serve soup and bread cold", "We serve bread and soup cold"),
        ("Sales fell in May and rose in June", "Sales rose in May and fell in June"),
        ("The key is under the bed in the box", "The key is in the box under the bed"),
        ("In May Ana works and Ben rests", "Ana works and Ben rests in May"),
        ("In May she decided to move", "She decided to move in May"),
        ("Freitags kocht Paula Fisch", "Paula kocht Fisch"),
        ("Each 2nd student pays", "Each student pays"),
        ("The timeout is 30 2nd", "The timeout is 30 second"),
        ("An animal we love is a cat", "A cat is an animal we love"),
        ("Luis es la jefa de Ana", "Ana es la jefa de Luis"),
        ("Ben is Ana's sister", "Ana is Ben's sister"),
        ("Talk to Professor Leeds", "Talk to Prof. Lee"),
        ("Der Kurs am Montag ist voll", "Am Montag ist der Kurs voll"),
        ("Montags gehe ich schwimmen", "Ich gehe nicht montags schwimmen"),
        ("Trinkt grünen Kaffee und Tee", "Trinkt grünen Tee und Kaffee"),
        ("Peter prüft Paula", "Peter wird von Paula geprüft"),
        ("Ana revisa la factura", "La factura fue revisada por Ana"),
        ("Voy a yoga los lunes", "Solo los lunes voy a yoga"),
        ("Der Flug dauert 8 h", "Der Flug geht um 8 Uhr"),
    ],
)
def test_what_only_looks_the_same_is_not(new: str, old: str) -> None:
    assert not is_repetition(normalize(new), normalize(old))


def test_a_number_of_thousands_of_digits_is_read_as_it_is() -> None:
    for text in (f"{'9' * 5_000} hundred", f"1{' hundred' * 3_000}"):
        assert is_repetition(normalize(text), normalize(text))
