SELECT * FROM reverie.change_things(
    %(space)s, %(token)s, %(is_retry)s, %(is_erasure)s, %(patience)s,
    %(actor)s, %(operation)s, %(note)s, %(reference)s, %(at)s, %(since)s,
    %(subjects)s::text[], %(ids)s::text[], %(befores)s::text[], %(afters)s::text[], %(fingerprints)s::text[], %(tags)s::text[],
    %(expected_names)s::text[], %(expected_values)s::text[], %(cursor_names)s::text[], %(cursor_values)s::text[],
    %(counter_names)s::text[], %(counter_values)s::bigint[], %(marks)s::text[], %(restored_keys)s::bigint[]
)
