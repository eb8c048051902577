"""Diagnosis and repair of a memory folder. Imports `admin.erasure`, `files`, `search` and `stores`."""

from reverie.admin.doctor.checks import Diagnosis, Finding, diagnose_unopened, repair_unopened
from reverie.admin.doctor.doctor import Doctor

__all__ = ["Diagnosis", "Doctor", "Finding", "diagnose_unopened", "repair_unopened"]
