// The code of README.md, and what the compiler has to refuse.

import { Reverie, ReverieError, paginate } from "./index.js";

export async function main(url: string, token: string): Promise<number> {
  const memory = new Reverie(url, { token });
  const alice = memory.scoped("user:alice");

  const { data: saved } = await alice.saveRecord({ content: "Alice prefers oolong tea" });
  const { data: found } = await alice.search({ query: "which tea?" });
  console.log(saved.outcome, found.hits.length);

  const { data: record, etag } = await alice.getRecord(saved.record.id);
  try {
    await alice.updateRecord(record.id, { importance: 0.9 }, { ifMatch: etag ?? "" });
  } catch (error) {
    if (!(error instanceof ReverieError) || error.status !== 412) throw error;
    console.log("it was changed meanwhile:", error.message);
  }

  let count = 0;
  for await (const page of paginate((cursor: string | undefined) => alice.listRecords({ cursor, limit: 100 }))) {
    count += page.items.length;
  }
  for await (const change of memory.streamChanges({ after: 0 })) {
    console.log(change.sequence, change.subject);
    break;
  }
  return count;
}

export async function mistakes(memory: Reverie): Promise<void> {
  // @ts-expect-error: a version is required
  await memory.updateRecord("a1b2c3d4e5f6", { importance: 0.9 });
  // @ts-expect-error: there is no such kind
  await memory.saveRecord({ content: "x", kind: "rumour" });
  // @ts-expect-error: content is required
  await memory.saveRecord({});
}
