"""How do other people's frameworks use a memory? One module for each; this one imports none of them."""
