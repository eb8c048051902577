"""Contract tests and a state machine for stores, including stores of your own."""
