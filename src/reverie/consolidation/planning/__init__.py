"""What passes share: their input, the builder of plans, and the parsing of replies. Pure."""
