-- Digits of every script, invisible characters, and numbers within words are read for search.
SELECT reverie.expect_new_words();
