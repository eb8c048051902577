-- Emoji are words for search, and letters with accents tell a language.
SELECT reverie.expect_new_words();
