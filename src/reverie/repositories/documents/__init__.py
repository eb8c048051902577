"""How is a memory seen as a folder of text files? `Documents`, over pages, logs and records."""

from reverie.repositories.documents.documents import KEPT_AS, RECORDS, SHARED, Documents
from reverie.repositories.documents.paths import DocumentEntry, Heard, Parts, parse_path

__all__ = ["KEPT_AS", "RECORDS", "SHARED", "DocumentEntry", "Documents", "Heard", "Parts", "parse_path"]
