"""Keys and addresses of model servers from environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from reverie.domain.errors import ModelRefused
from reverie.domain.text.validation import validate_address


def read_key(environ: Mapping[str, str], name: str) -> str | None:
    """Return a key without white space around it; None if it is not set.

    Raises:
        ModelRefused: it has characters that a header must not have.
    """
    key = environ.get(name, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelRefused(f"{name} has characters that no key has, such as a line break: set it again")
    return key or None


def read_address(environ: Mapping[str, str], name: str) -> str | None:
    """Return the address of a server; None if it is not set.

    Raises:
        InvalidInput: it is not a valid address.
    """
    url = environ.get(name, "").strip()
    return validate_address(url, name=name) if url else None


def read_openai_server(environ: Mapping[str, str], model: str) -> tuple[str | None, str | None]:
    """Return the key and the address of `OPENAI_API_KEY` and `OPENAI_BASE_URL`.

    Raises:
        ModelRefused: neither is set.
    """
    key, url = read_key(environ, "OPENAI_API_KEY"), read_address(environ, "OPENAI_BASE_URL")
    if not key and not url:
        raise ModelRefused(
            f"openai:{model} needs OPENAI_API_KEY, or OPENAI_BASE_URL for a server that asks for no key"
        )
    return key, url


def read_ollama_address(environ: Mapping[str, str]) -> str:
    """Return the address of `OLLAMA_HOST`, `http://127.0.0.1:11434` if that is not set, with `/v1`.

    Raises:
        InvalidInput: it is not a valid address.
    """
    host = environ.get("OLLAMA_HOST", "").strip() or "127.0.0.1:11434"
    address = host if "://" in host else f"http://{host}"
    return f"{validate_address(address, name='OLLAMA_HOST').rstrip('/')}/v1"
