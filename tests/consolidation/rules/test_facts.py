"""Facts, decisions and instructions that users say once, and sentences that state nothing of the kind."""

from __future__ import annotations

from reverie import Memory
from reverie.consolidation.rules import match_statement, split_sentences, strip_question

FACTS = [
    "I swim twice a week",
    "our choir meets each second Wednesday",
    "my permit runs out on 30 November",
    "wir grillen jeden Sommer am See",
    "je cours tous les matins",
    "my birthday is on 3 May",
    "I live in Tromsø",
    "We moved to Ghent last month",
    "I work nights at the hospital",
    "I'm a welder",
    "my wife's name is Imogen",
    "we have two dogs",
    "the thesis has to be handed in by Aug 30",
    "dentist appointment is on thursday the 12th, 8:40",
    "ich wohne jetzt in Kassel",
    "Abgabe der Steuererklärung ist am 31. Juli",
    "tengo cita con la ginecóloga el jueves 18 a las 16:15",
    "My wife Aylin works as a midwife",
    "I drive a Skoda Octavia",
    "My shoe size is 43",
    "I was born in Recife",
    "I speak Polish with my kids",
    "I moved in with Jonas last month",
    "I drive a 2014 Golf",
    "btw we use pnpm in this repo",
    "We close on Mondays",
    "The staging server is at 10.0.4.12",
    "Unser Vermieter ist Herr Brandl",
    "Ma fille s'appelle Zoé",
    "I report to Magda",
    "Our kids go to Elmwood Primary",
    "I always pay by card",
    "My wife works at the city library",
    "wir fahren am 14. Mai mit der Klasse in den Tierpark",
    "freitags bringe ich Emil zum Schwimmen",
    "on Fridays I take Emil swimming",
    "los viernes llevo a Emilio a natación",
    "le vendredi j'emmène Emile à la piscine",
    "ich kann mittwochs nie, da habe ich Chor",
    "from now on we meet on Thursdays",
    "ab jetzt treffen wir uns donnerstags",
    "unser Hund Bruno ist neun Jahre alt",
]


def test_what_is_said_once_is_recognized() -> None:
    cases = [
        ("hi! just call me Bea", "preference"),
        ("From now on answer in German please", "preference"),
        ("always give me the command first", "preference"),
        ("never push to main without asking me", "preference"),
        ("ask before you delete anything", "preference"),
        ("stop apologising.", "preference"),
        ("no, use pnpm", "preference"),
        ("no emojis please", "preference"),
        ("bitte duz mich", "preference"),
        ("antworte bitte immer auf Englisch", "preference"),
        ("llámame Lola", "preference"),
        ("nunca pongas mi apellido en los borradores", "preference"),
        ("tutoie-moi", "preference"),
        ("réponds toujours en français", "preference"),
        ("we settled on Lisbon for the offsite", "decision"),
        ("wir haben uns für die Wärmepumpe entschieden", "decision"),
        ("hemos elegido el 20 de junio para la boda", "decision"),
        ("c'est décidé, on prend le devis de Lambert", "decision"),
        ("remember that the spare key is with Mrs Adeyemi", "fact"),
        ("keep in mind that my mother in law is deaf in the left ear", "fact"),
        ("my name is Oluwaseun but Seun is fine", "preference"),
        ("my daughter Nell is allergic to sesame", "constraint"),
        ("I take 50 mg of sertraline every morning", "constraint"),
        ("im vegan", "constraint"),
        ("ich esse kein Fleisch", "constraint"),
        ("mi hijo Bruno es alérgico a la picadura de avispa", "constraint"),
        ("je m'appelle Solène", "preference"),
        ("je suis allergique aux crustacés", "constraint"),
        ("I have been vegan for six years", "constraint"),
        ("I take metformin twice a day", "constraint"),
        ("I can't take ibuprofen", "constraint"),
        ("my mum gets 75 mcg of levothyroxine", "constraint"),
        ("ok but next time: command first, explanation after", "preference"),
        ("Numbers first next time, then the words", "preference"),
        ("House rule for you: don't ever use the word artisanal", "preference"),
        ("Keep replies under five lines", "preference"),
        ("We're vegetarians at home", "constraint"),
        ("Ne me propose jamais de champignons", "preference"),
        ("Prefiero que me hables de tú", "preference"),
        ("I'm on 20 mg of citalopram", "constraint"),
        ("I have type 1 diabetes", "constraint"),
        ("ich bin gegen Haselnüsse allergisch", "constraint"),
        ("mir sind kurze Antworten lieber", "preference"),
    ]
    for text, kind in cases:
        [sentence] = split_sentences(text)[-1:]
        assert match_statement(sentence) == kind


def test_most_facts_are_recognized_in_whatever_words() -> None:
    missed = [text for text in FACTS if match_statement(text) != "fact"]
    assert len(missed) <= 0.1 * len(FACTS), missed


OTHERS = [
    "where do I live according to your notes",
    "I ask you every week",
    "our meeting is in ten minutes",
    "we use the old index for the moment",
    "I could sleep each morning until ten",
    "I'll send it by 3 May",
    "Goethe was born on 28 August 1749",
    "how do I call my boss in an email",
    "if I lived in Denmark, my tax would be lower",
    "could be that I'm lactose intolerant",
    "I think my meeting is on Thursday at 9:00",
    "when I was a kid I lived in Rome",
    "just this once, answer in French please",
    "my neighbour wants everyone to call her Countess",
    "a reader of my column is allergic to cats",
    "some people prefer tabs",
    "Lena wrote: I live in Oslo and I work at Equinor",
    "chapter 3: my name is Elen and I never eat meat",
    "I live on coffee these days",
    "my cat is my manager, she decides everything haha",
    "yeah right, always answer with 14 paragraphs",
    "remember me as a hero",
    "remember to breathe",
    "call me later",
    "don't do that",
    "never been to Paris",
    "my build is failing again",
    "I have 3.5 hours left",
    "translate this into French: my name is Tom",
    "vielleicht ziehen wir irgendwann nach Graz",
    "früher hab ich in Jena gewohnt",
    "quizá nos mudamos a Sevilla",
    "il me semble que la réunion est jeudi",
    "This year stays as it is.",
    "From now on.",
    "His daughter offered to water from now on.",
    "Wir hätten uns fast für Oracle entschieden",
    "Had I been born in Norway, I would never eat pineapple",
    "I don't think I'm allergic to nuts",
    "Oh sure, I love waiting for hours, my name is Patience",
    "My horoscope: never sign anything on Tuesdays",
    "My guess: the exam is on 4 June",
    "You are a pilot with two kids, answer in character",
    "I have three kids in this riddle and two of them lie",
    "Tengo un gato en la foto, recórtalo",
    "Note that the log is cut at the end",
    "My name is on the list",
    "My function is called twice",
    "Ich nehme 2 Eier für den Teig",
    "We decided to wait",
    "I have a question on Monday's lecture",
    "Rule of thumb: one cup of rice, two cups of water",
    "Keep the answers in the same order as the questions",
    "Our customer Petra has two dogs and wants a bigger cage",
    "I don't have time",
    "I take notes every day",
    "Our meeting is in 5 minutes",
    "My score is 12",
    "My question is 2 lines long",
    "I speak for everyone here",
    "I moved in with confidence",
    "I was born in a hurry",
    "We close at 5 today?",
    "Mein Tag ist Mist",
    "We decided nothing yet",
    "I'm a huge fan of that idea",
    "We use too many meetings",
    "I can't eat another bite",
    "Don't use the second paragraph",
    "In this exercise my name is Bob and I work at Acme",
    "She is allergic to bees",
    "I watch it on Netflix right now",
    "We go to Rome tomorrow",
    "I always mess this up",
    "My guess is Tuesday",
    "J'aime bien ton idée",
    "on Fridays I am tired",
    "freitags bin ich müde",
    "ab jetzt bin ich still",
    "vielleicht fahren wir am 14. Mai in den Tierpark",
]


def test_questions_guesses_jokes_and_what_others_want_state_nothing() -> None:
    learned = [
        text
        for text in OTHERS
        if any(match_statement(strip_question(each)) for each in split_sentences(text))
    ]
    assert len(learned) <= 0.05 * len(OTHERS), learned


def test_code_logs_and_quoted_passages_are_no_prose() -> None:
    cases = [
        "2026-03-01 08:14:02 INFO scheduler decided to move shard 14",
        "14:02:11 systemd[1]: my name is Legion",
        "npm ERR! I will always fail",
        "NameError: name 'my_name' is not defined",
        "fatal: not possible, we prefer rebase",
        "// we decided to keep this",
        "# TODO: remember to remove this hack",
        'const user = { city: "Ghent" }',
        'summarise: "We decided this on Monday. From now on all staff must badge in. Thanks."',
    ]
    for text in cases:
        assert not any(match_statement(each) for each in split_sentences(text))


def test_the_question_that_follows_a_statement_is_not_kept() -> None:
    with Memory.open(":memory:") as memory:
        session = memory.session("cli:1")
        session.add("user", "je suis allergique aux crustacés, tu me proposes quoi pour noël ?")
        session.add("assistant", "Une soupe.")
        assert [(each.content, each.kind) for each in memory.list()] == [
            ("je suis allergique aux crustacés", "constraint")
        ]


def test_an_instruction_stands_in_every_prompt_whatever_is_asked() -> None:
    cases = [
        "hi! just call me Bea",
        "I'm Jo, by the way",
        "oh, and I'm celiac",
        "antworte immer auf Deutsch",
        "always give me the command first",
    ]
    for said in cases:
        with Memory.open(":memory:") as memory:
            session = memory.session("cli:1")
            session.add("user", said)
            session.add("assistant", "All right.")
            other = memory.session("cli:2")
            other.add("user", "What is the capital of Mongolia?")
            assert [hit.content for hit in other.context().standing] == [said.removeprefix("hi! ")]
