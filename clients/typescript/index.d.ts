import type { Api } from "./api.js";

export * from "./api.js";

/** What every operation takes. */
export interface Options {
  signal?: AbortSignal;
}

/** An answer: its body, and what its headers say. */
export interface Result<T> {
  data: T;
  status: number;
  /** Version of a record, session, page or entry, for `ifMatch`; null where it has none. */
  etag: string | null;
  /** Number of the newest change, where the operation may have made one. */
  sequence: number | null;
}

/** A change, without content. */
export interface Change {
  sequence: number;
  batch: number;
  actor: string;
  subject: string;
  id: string | null;
}

export interface ClientOptions {
  /** A token of `reverie token create`. */
  token?: string | null;
  /** Scope within that of the token. */
  scope?: string;
  /** Milliseconds that one request may take; 30,000 by default. */
  timeoutMs?: number;
  /** Milliseconds for which what may be sent twice is sent again while there is no answer; 10,000 by default. */
  patienceMs?: number;
  fetch?: typeof globalThis.fetch;
}

/** An error that the server answered; the message says what is wrong and what to do. */
export class ReverieError extends Error {
  readonly status: number;
  readonly type: string;
  readonly title: string;
  readonly errors: { pointer: string; detail: string }[];
  readonly requestId: string | null;
}

/** The server could not be reached, or did not answer in time; `status` is 0. */
export class ReverieUnavailable extends ReverieError {}

/** Client of a Reverie server. */
export interface Reverie extends Api {}
export class Reverie {
  constructor(url: string, options?: ClientOptions);
  readonly url: string;
  readonly scope: string;
  /** The client of a scope within this one. */
  scoped(scope: string): Reverie;
  /** Changes as they are made, for ever. A stream that ends is opened again after the last change seen. */
  streamChanges(options?: { after?: number; scope?: string; signal?: AbortSignal }): AsyncGenerator<Change, void>;
}

/** Pages of a list, one after the other. `list` takes a cursor and asks for one page. */
export function paginate<T extends { next: string | number | null }>(
  list: (cursor: NonNullable<T["next"]> | undefined) => Promise<Result<T>>,
): AsyncGenerator<T, void>;
