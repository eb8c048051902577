"""A memory as a tree of text documents, over pages, logs and records. Imports the other repositories."""

from reverie.repositories.documents.documents import KEPT_AS, RECORDS, Documents
from reverie.repositories.documents.pages import SHARED
from reverie.repositories.documents.paths import DocumentEntry, OriginFunction, Parts, parse_path

__all__ = [
    "KEPT_AS",
    "RECORDS",
    "SHARED",
    "DocumentEntry",
    "Documents",
    "OriginFunction",
    "Parts",
    "parse_path",
]
