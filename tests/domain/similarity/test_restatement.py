"""Short statements in one of several forms are one; whatever tells two apart stays."""

from __future__ import annotations

import pytest

from reverie import Memory
from reverie.domain.similarity.restatement import restate


def is_folded(old: str, new: str) -> bool:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.save(old)
        return memory.save(new).outcome == "reinforced"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Budget: 5000 euros", "The budget is 5,000 €"),
        ("Ada and Piet share a desk", "Piet and Ada share a desk"),
        ("Ada und Piet teilen ein Zimmer", "Piet und Ada teilen ein Zimmer"),
        ("The permit lasts two years", "The permit lasts for 2 years"),
        ("Der Vertrag gilt bis 31.03.2027", "Der Vertrag gilt bis zum 31. März 2027"),
        ("Rent is 1200 euros per month", "Rent: 1,200 €/month"),
        ("The meeting is on 3 May", "Meeting: 3 May"),
        ("User prefers dark mode", "I prefer dark mode"),
        ("Doesn't drink coffee", "I don't drink coffee"),
        ("I work as a nurse", "I'm a nurse"),
        ("Anna is allergic to peanuts", "Anna has a peanut allergy"),
        ("My sister is called Mia", "Mia is my sister"),
        ("Backups run nightly at 2am", "Backups run every night at 02:00"),
        ("The server has 16 GB of RAM", "The server has 16 GB RAM"),
        ("Don't use emojis", "Never use emojis"),
        ("Die Miete beträgt 900 Euro", "Miete: 900 €"),
        ("Kids: Leo and Mia", "Kids: Mia and Leo"),
        ("Anna, Ben and Carl are on call", "Ben, Carl and Anna are on call"),
        ("Works at Acme as a welder", "Works as a welder at Acme"),
        ("Without glasses he can't read", "He can't read without glasses"),
        ("Lives on 5th Ave.", "Lives on 5th Avenue"),
        ("Univ. of Oslo", "University of Oslo"),
        ("Meeting at half past 9", "Meeting at 9:30"),
        ("Meeting at quarter to ten", "Meeting at 9:45"),
        ("Shop opens at 9", "Shop opens at 9:00"),
        ("Starts Monday", "Starts on Monday"),
        ("Holiday 1-14 August", "Holiday 1 to 14 August"),
        ("Exam on Friday 12 June", "Exam on Friday, June 12th"),
        ("Ich wohne in Graz", "Wohne in Graz"),
        ("Mi hermana se llama Lucía", "Mi hermana es Lucía"),
        ("Le loyer est de 800 euros", "Loyer : 800 €"),
        ("Mon fils s'appelle Hugo", "Mon fils, c'est Hugo"),
        ("I need a quiet room", "Needs a quiet room"),
        ("I feed the cats", "Feeds the cats"),
        ("I agreed to pay", "Agreed to pay"),
        ("Allergic to shellfish", "I'm allergic to shellfish"),
        ("The user's boss is Teresa", "My boss is Teresa"),
        ("Budget of the trip: 3,000 euros", "The trip's budget is 3000 euros"),
        ("The wifi is called Bluebird", "The name of the wifi is Bluebird"),
        ("The retro is on Fridays at 14:00", "Retro: Fridays at 14:00"),
        ("Das Treffen ist um 14 Uhr", "Treffen: 14:00 Uhr"),
        ("5 mg twice daily", "5 mg twice a day"),
        ("5 requests per second", "5 requests/second"),
        ("Takes the 7:42 train every morning", "Takes the 7:42 train each morning"),
        ("Born on 4 July 1988", "Born July 4, 1988"),
        ("Die Miete ist 800 Euro im Monat", "Die Miete beträgt 800 € pro Monat"),
    ],
)
def test_what_is_said_in_another_form_is_folded(old: str, new: str) -> None:
    assert is_folded(old, new)
    assert is_folded(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I prefer tea", "He prefers tea"),
        ("Ada and Piet won gold and silver", "Piet and Ada won gold and silver"),
        ("Ada and Piet's dog", "Piet and Ada's dog"),
        ("Stays in two years", "Stays for 2 years"),
        ("I met Ann. On Sundays Ben runs", "I met Ben runs. On Sundays Ann"),
        ("She told Ben on Monday to leave", "She told Ben to leave on Monday"),
        ("Bread and butter pudding", "Butter and bread pudding"),
        ("Meeting at half past 9", "Meeting at 9:45"),
        ("Holiday 1-14 August", "Holiday 1-14 July"),
        ("Without glasses he can't read", "With glasses he can't read"),
        ("Works at Acme as a welder", "Works at Acme with a welder"),
        ("The boss is Ann", "My boss is Ann"),
        ("Mia is my sister", "Mia is our sister"),
        ("Mia is my sister", "Mia is my sister's friend"),
        ("I always use tabs", "I never use tabs"),
        ("Never call before 9", "Don't call before 10"),
        ("I have a peanut allergy", "I have a hazelnut allergy"),
        ("Has an allergy to cats", "Has cats"),
        ("Runs nightly at 2", "Runs hourly at 2"),
        ("10 €/month", "10 €/week"),
        ("Port: 8080", "Portal: 8080"),
        ("He said: 5", "He is 5"),
        ("Ben: call Ann", "Ann: call Ben"),
        ("Not allowed: cats", "Allowed: cats"),
        ("16 GB of RAM", "16 GB of disk"),
        ("I work as a nurse", "I worked as a nurse"),
        ("I can swim", "I can't swim"),
        ("I've two cats", "I had two cats"),
        ("Deadline: May 3", "Deadline: May 3, 2027"),
        ("Ann is Ben's boss", "Ben is Ann's boss"),
        ("Ich wohne in Graz", "Er wohnt in Graz"),
        ("J'habite à Lyon", "Il habite à Lyon"),
        ("Mi hermana se llama Lucía", "Su hermana se llama Lucía"),
        ("I need a quiet room", "I needed a quiet room"),
        ("The flag is --force", "The flag is --Force"),
        ("The Bank of England is open", "England's bank is open"),
        ("Paid 9 Euro im Monat Mai", "Paid 9 Euro pro Monat Mai"),
        ("Each second test fails", "A second test fails"),
        ("My sister's boss is Teresa", "My boss's sister is Teresa"),
        ("The meeting is at 5", "The meeting is on 5 May"),
        ("Is the server down", "The server is down"),
        ("Der Kurs ist um 18 Uhr", "Der Kurs ist ab 18 Uhr"),
        ("Is closed", "Was closed"),
    ],
)
def test_what_says_something_else_is_not(old: str, new: str) -> None:
    assert not is_folded(old, new)
    assert not is_folded(new, old)


@pytest.mark.parametrize(
    "text", ["Is the budget 5000?", "a\nb: c", "x" * 200, "", ":", "I", "Tea at half past ²"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert restate(text) == text


@pytest.mark.timeout(5)
def test_long_runs_take_no_time() -> None:
    for run in ("a ", "a: ", "a's ", "I ", "1/month ", "is "):
        restate((run * 160)[:160])
