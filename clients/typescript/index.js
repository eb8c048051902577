// Client of a Reverie server. It needs `fetch`, as Node.js 20, Deno, Bun and browsers have it, and nothing else.

import { OPERATIONS } from "./api.js";

const LONGEST_PAUSE_MS = 2_000;
const BUSY = new Set([502, 503, 504]);

/** An error that the server answered; `detail` says what is wrong and what to do. */
export class ReverieError extends Error {
  constructor(problem, { cause, requestId = null } = {}) {
    super(problem.detail ?? problem.title, { cause });
    this.name = "ReverieError";
    this.status = problem.status;
    this.type = problem.type ?? "about:blank";
    this.title = problem.title ?? "";
    this.errors = problem.errors ?? [];
    this.requestId = requestId;
  }
}

/** The server could not be reached, or did not answer in time; `status` is 0. */
export class ReverieUnavailable extends ReverieError {
  constructor(detail, cause) {
    super({ status: 0, title: "Unavailable", detail }, { cause });
    this.name = "ReverieUnavailable";
  }
}

export class Reverie {
  constructor(url, { token = null, scope = "", timeoutMs = 30_000, patienceMs = 10_000, fetch = globalThis.fetch } = {}) {
    this.url = url.replace(/\/+$/, "");
    this.scope = scope;
    this.#settings = { token, timeoutMs, patienceMs, fetch };
  }

  #settings;

  /** The client of a scope within this one. */
  scoped(scope) {
    const joined = [this.scope, scope].filter(Boolean).join("/");
    return new Reverie(this.url, { ...this.#settings, scope: joined });
  }

  /** Changes as they are made, for ever. A stream that ends is opened again after the last change seen. */
  async *streamChanges({ after, scope = this.scope, signal } = {}) {
    if (after === undefined) {
      const { data } = await this.listChanges({ scope, newest_first: true, limit: 1, signal });
      after = data.items[0]?.sequence ?? 0;
    }
    const attempts = new Attempts(this.#settings.patienceMs);
    while (!signal?.aborted) {
      try {
        const query = new URLSearchParams({ scope, after: String(after) });
        const response = await this.#send("GET", `/v1/events?${query}`, {}, undefined, signal);
        if (!response.ok) throw await readProblem(response);
        attempts.restart();
        for await (const change of readEvents(response.body)) {
          after = change.sequence;
          yield change;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (!isPassing(error) || attempts.isOver()) throw error;
      }
      await attempts.pause();
    }
  }

  /** Send one operation. What may be sent twice is sent again where there was no answer. */
  async _call(operation, values, body, options) {
    let path = operation.path.replace(/\{\w+\}/g, () => encodeURIComponent(values.shift()));
    const query = new URLSearchParams();
    for (const name of operation.query ?? []) {
      const value = options[name] ?? (name === "scope" && this.scope ? this.scope : undefined);
      for (const each of value === undefined ? [] : [value].flat()) query.append(name, String(each));
    }
    if (query.size) path += `?${query}`;
    const headers = operation.body ? { "Content-Type": operation.body } : {};
    for (const [option, header] of Object.entries(operation.headers ?? {})) {
      const value = options[option] ?? (option === "idempotencyKey" ? crypto.randomUUID() : undefined);
      if (value !== undefined) headers[header] = value;
    }
    const isRepeatable = operation.method === "GET" || "Idempotency-Key" in headers;
    const sent = operation.body ? JSON.stringify(body) : undefined;
    const attempts = new Attempts(isRepeatable ? this.#settings.patienceMs : 0);
    for (;;) {
      const timeout = AbortSignal.timeout(this.#settings.timeoutMs);
      const signal = options.signal ? AbortSignal.any([timeout, options.signal]) : timeout;
      try {
        const response = await this.#send(operation.method, path, headers, sent, signal);
        if (!response.ok) throw await readProblem(response);
        return await readResult(response);
      } catch (error) {
        options.signal?.throwIfAborted();
        if (!isPassing(error) || attempts.isOver()) throw error;
      }
      await attempts.pause();
    }
  }

  async #send(method, path, headers, body, signal) {
    const { token, fetch } = this.#settings;
    const identity = token ? { Authorization: `Bearer ${token}` } : {};
    try {
      return await fetch(this.url + path, { method, headers: { ...identity, ...headers }, body, signal });
    } catch (error) {
      throw new ReverieUnavailable(`${this.url} did not answer: start the server, or check the address.`, error);
    }
  }
}

for (const [name, operation] of Object.entries(OPERATIONS)) {
  const count = operation.path.split("{").length - 1;
  Reverie.prototype[name] = function (...given) {
    const values = given.slice(0, count);
    const body = operation.body ? given[count] : undefined;
    return this._call(operation, values, body, given[count + (operation.body ? 1 : 0)] ?? {});
  };
}

/** Pages of a list, one after the other. `list` takes a cursor and asks for one page. */
export async function* paginate(list) {
  let cursor;
  do {
    const { data } = await list(cursor);
    yield data;
    cursor = data.next ?? undefined;
  } while (cursor !== undefined);
}

/** Attempts at one thing, with longer and longer pauses between them, until patience is over. */
class Attempts {
  constructor(patienceMs) {
    this.patienceMs = patienceMs;
    this.restart();
  }

  restart() {
    this.begun = Date.now();
    this.next = 100;
  }

  isOver() {
    return Date.now() + this.next - this.begun > this.patienceMs;
  }

  async pause() {
    await new Promise((resolve) => setTimeout(resolve, this.next));
    this.next = Math.min(2 * this.next, LONGEST_PAUSE_MS);
  }
}

function isPassing(error) {
  return error instanceof ReverieUnavailable || BUSY.has(error.status);
}

async function readResult(response) {
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  let data;
  try {
    data = isJson ? await response.json() : await response.text();
  } catch (error) {
    throw new ReverieUnavailable("The answer broke off.", error);
  }
  const sequence = response.headers.get("reverie-sequence");
  return {
    data,
    status: response.status,
    etag: response.headers.get("etag"),
    sequence: sequence === null ? null : Number(sequence),
  };
}

async function readProblem(response) {
  const requestId = response.headers.get("x-request-id");
  const text = await response.text();
  let problem = { title: response.statusText, detail: text.slice(0, 500) || response.statusText };
  if ((response.headers.get("content-type") ?? "").includes("json")) {
    try {
      problem = JSON.parse(text);
    } catch {
      // A proxy may answer in its own way: its text is the detail.
    }
  }
  return new ReverieError({ ...problem, status: response.status }, { requestId });
}

async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw new ReverieUnavailable("The stream of changes broke off.", error);
      });
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").find((line) => line.startsWith("data: "));
        if (data) yield JSON.parse(data.slice(6));
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // it may have failed already
  }
}
