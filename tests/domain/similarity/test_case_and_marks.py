"""Where a capital, a comma or a mark by itself is all that two texts differ in, and says something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.similarity.comparison import is_repetition, normalize
from reverie.domain.similarity.specifics import extract_specifics, is_ambiguous_thousands, normalize_number
from reverie.domain.text.ids import compute_fingerprint, normalize_case


def repeats(new: str, old: str) -> bool:
    return is_repetition(normalize(new), normalize(old))


DIFFERENT = [
    # a capital
    ("Start the server with -p 8080", "Start the server with -P 8080"),
    ("RUN IT WITH -P", "RUN IT WITH -p"),
    ("用 -P 启动服务", "用 -p 启动服务"),
    ("Der Pfad ist nicht /srv/A", "Der Pfad ist nicht /srv/a"),
    ("The settings are in /etc/Harbor", "The settings are in /etc/harbor"),
    ("The variable is called maxRetries", "The variable is called maxretries"),
    ("The constant is MAX_age", "The constant is max_age"),
    ("The file is called Makefile", "The file is called makefile"),
    ("Read the Notes.md first", "Read the notes.md first"),
    ("The entry file is App.js", "The entry file is app.js"),
    ("App.vue holds the form", "app.vue holds the form"),
    ("Import it from Foo.Bar", "Import it from foo.bar"),
    ("The variable is $Home", "The variable is $home"),
    ("The branch is release-A", "The branch is release-a"),
    ("The locker code is aB3", "The locker code is Ab3"),
    ("The id is 3xK9pQ", "The id is 3xk9pq"),
    ('The network is "Nest"', 'The network is "nest"'),
    ("Der Hinweis lautet „Blauer Hund“", "Der Hinweis lautet „blauer Hund“"),
    ("The branch is called `Main`", "The branch is called `main`"),
    ("Run `yarn Build` in the hook", "Run `yarn build` in the hook"),
    ("Ship it to US customers", "Ship it to us, customers"),
    ("The link does 100 Mb a second", "The link does 100 MB a second"),
    ("The plant delivers 5 MW", "The plant delivers 5 mW"),
    ("The user likes Polish food", "The user likes polish food"),
    ("Wir haben Sie informiert", "Wir haben sie informiert"),
    ("The user listens to The Who", "The user listens to Who"),
    # a comma, a colon, a bracket
    ("Contacts: Anna, Maria, Jo", "Contacts: Anna Maria, Jo"),
    ("I like cooking my family and my dog", "I like cooking, my family, and my dog"),
    ("The professor said the student is lazy", "The professor, said the student, is lazy"),
    ("Balance is (500) dollars", "Balance is 500 dollars"),
    # a mark
    ("The CSV delimiter is ;", "The CSV delimiter is ,"),
    ('The CSV delimiter is ";"', 'The CSV delimiter is ","'),
    ("The default is []", "The default is {}"),
    ("The prompt is ) on that host", "The prompt is ( on that host"),
    ("Use the operator ! in the filter", "Use the operator . in the filter"),
    ("The glob is `*`", "The glob is `**`"),
    ("Pass *args to the hook", "Pass **args to the hook"),
    ("The pattern is a? here", "The pattern is a here"),
    ("The regex is foo.*", "The regex is foo*"),
    ("The regex is [a-z]+", "The regex is [a-z]*"),
    ("The dates are written %Y-%m-%d", "The dates are written %y-%m-%d"),
    ("The date format is yyyy-MM-dd", "The date format is yyyy-mm-dd"),
    ("The clock format is HH:mm", "The clock format is hh:mm"),
    ("Run `npm run build` first", "Run `npm run-build` first"),
    ("Run `make test` before a push", "Run `make Test` before a push"),
    ("The range is [1, 5)", "The range is [1, 5]"),
    ("The class is called Parser", "The class is called parser"),
    ("Strings are quoted with '", 'Strings are quoted with "'),
    ("The shortcut is G", "The shortcut is g"),
    ("The component is <Button>", "The component is <button>"),
    ("The type is List[int]", "The type is list[int]"),
    ("Prefers `a|b` as the separator", "Prefer `a||b` as the separator"),
    # a number
    ("The grid has 10² nodes", "The grid has 102 nodes"),
    ("The rent is 1.250 EUR", "The rent is 1.25 EUR"),
    # what a sentence before it says of a statement
    ("The following is from 2019. We use Jenkins.", "We use Jenkins"),
    ("The client is Acme. Payment is due within 30 days.", "Payment is due within 30 days"),
]

SAME = [
    ("The user runs PostgreSQL on macOS", "the user runs postgresql on macos"),
    ("NEVER SEND THE FILE /ETC/HOSTS", "never send the file /etc/hosts"),
    ("Uses an iPhone and GitHub", "uses an iphone and github"),
    ("The settings are in `/etc/harbor`", "The settings are in /etc/harbor"),
    ("He did not come because he was ill", "He did not come, because he was ill"),
    ("In 2020, we moved the archive", "In 2020 we moved the archive"),
    ("The crew is Ole, Pia, and Quinn", "The crew is Ole, Pia and Quinn"),
    ("**The smoke test needs a printer.**", "The smoke test needs a printer"),
    ("* The smoke test needs a printer", "The smoke test needs a printer"),
    ("The lease ends on May 3, 2025", "The lease ends on 3 May 2025"),
    ("The delimiter is `;`", 'The delimiter is ";"'),
    ("Uses a standing desk .", "Uses a standing desk"),
    ("The area is 20 m²", "The area is 20 m2"),
    ("Run `make test` before a push.", "run make test before a push"),
    ("The share is 20%, at most", "The share is 20 %, at most"),
    ("The rent is $1,200", "The rent is $1200."),
    ("Call the **blue** team", "Call the blue team"),
    ("The dog is called Rex", "the dog is called rex"),
    ("The laptop has 16GB of memory", "the laptop has 16gb of memory"),
    ("The U.S. tour starts at 5 P.M.", "the u.s. tour starts at 5 p.m."),
    ("Has a Ph.D. in botany", "has a ph.d. in botany"),
    ("Uses Python3 and COVID19 tests", "uses python3 and covid19 tests"),
    ('The label says "Fragile"', "The label says Fragile"),
    ("The clock format is `HH:mm`", "The clock format is HH:mm"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_a_capital_or_a_mark_tells_apart_is_never_folded(one: str, other: str) -> None:
    assert not repeats(one, other)
    assert not repeats(other, one)
    assert compute_fingerprint("fact", one) != compute_fingerprint("fact", other)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_a_matter_of_style_is_still_folded(one: str, other: str) -> None:
    assert repeats(one, other)
    assert repeats(other, one)


@given(st.text(st.characters(exclude_characters="Σ")))  # whose small letter depends on what follows
def test_nothing_but_case_is_ever_taken_away(text: str) -> None:
    assert normalize_case(text).lower() == text.lower()


@given(st.text(alphabet="abcäß ,.", min_size=1))
def test_small_letters_stay_as_they_are(text: str) -> None:
    assert normalize_case(text) == text


@pytest.mark.slow
@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["aB" * 100_000, "a" * 200_000 + "B", "`" * 100_000 + "A", "A/" * 100_000])
def test_long_hostile_texts_are_normalized(text: str) -> None:
    assert normalize_case(text * 4).lower() == (text * 4).lower()


def test_a_flag_in_another_case_does_not_stand_in_for_one() -> None:
    known = extract_specifics("Start the server with -p and `yarn Build`")
    assert known.find_missing_from(extract_specifics("Start the server with -P and `yarn Build`")) == {"-p"}
    assert (
        known.find_missing_from(extract_specifics("Start the server with -p and yarn Build")) == frozenset()
    )


def test_a_point_that_may_part_thousands_keeps_its_zeros() -> None:
    assert normalize_number("3.50") == "3.5"
    assert normalize_number("1.250") == "1.250"
    assert is_ambiguous_thousands("12.500")
    assert not is_ambiguous_thousands("0.500")


def test_a_summary_that_speaks_of_something_else_leaves_everything_unsaid() -> None:
    source = extract_specifics("The smoke test needs a real printer")
    assert source.find_missing_from(extract_specifics("The user has several preferences")) == frozenset()
    assert source.find_unaffirmed_in(extract_specifics("The user has several preferences"))
    assert not source.find_unaffirmed_in(extract_specifics("Smoke tests need a printer that is real"))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ["a", "[", "{", "[[", "`", "'", '"', "aA", "ab"])
@pytest.mark.parametrize("end", ["", "1", "!x"])
def test_a_long_word_takes_time_in_proportion_to_its_length(piece: str, end: str) -> None:
    text = f"Call aB {piece * 50_000}{end}"
    assert normalize(text).letters.lower().startswith("call ab")
