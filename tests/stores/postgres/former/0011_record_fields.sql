-- Facts of records that earlier versions stored in the metadata are fields. `reverie.stores.base` moves them.
SELECT reverie.expect_new_words();
