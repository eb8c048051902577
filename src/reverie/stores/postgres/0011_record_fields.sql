-- Facts of records that earlier versions stored in the metadata are fields. `record_migration` moves them.
SELECT reverie.expect_new_words();
