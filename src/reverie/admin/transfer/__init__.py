"""How does a memory get out, and another one in? Backups, exports, and imports of many formats.

`backups` copies everything and brings it back; `exports` writes what people and other programs can read;
`importing` takes in what a module of `formats` has read.
"""
