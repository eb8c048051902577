// Tests on Node.js against a running server: its address and a token are the arguments.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { OPERATIONS } from "./api.js";
import { Reverie, ReverieError, ReverieUnavailable, paginate } from "./index.js";

const [url, token] = process.argv.slice(2);
const memory = new Reverie(url, { token });
const alice = memory.scoped("user:alice");

test("what is saved is found in its scope only", async () => {
  const saved = await alice.saveRecord({ content: "Alice prefers oolong tea", tags: ["tea"] });
  assert.equal(saved.status, 201);
  assert.equal(saved.data.outcome, "created");
  assert.ok(saved.sequence > 0);
  const { data } = await alice.search({ query: "which tea?" });
  assert.deepEqual(data.hits.map((hit) => hit.record?.content ?? hit.content), ["Alice prefers oolong tea"]);
  assert.deepEqual((await memory.scoped("user:bob").search({ query: "which tea?" })).data.hits, []);
  assert.equal((await alice.listTags()).data.tea, 1);
});

test("a version that is not the newest is refused", async () => {
  const { data: saved } = await alice.saveRecord({ content: "The office closes at six" });
  const { etag } = await alice.getRecord(saved.record.id);
  const { data: changed } = await alice.updateRecord(saved.record.id, { importance: 0.9 }, { ifMatch: etag });
  assert.equal(changed.importance, 0.9);
  await assert.rejects(alice.archiveRecord(saved.record.id, { ifMatch: etag }), (error) => {
    assert.ok(error instanceof ReverieError);
    assert.equal(error.status, 412);
    assert.ok(error.requestId);
    return true;
  });
});

test("a refusal names the field", async () => {
  await assert.rejects(memory.saveRecord({ content: 7 }), (error) => {
    assert.equal(error.status, 422);
    assert.equal(error.errors[0].pointer, "/content");
    return true;
  });
  await assert.rejects(new Reverie(url, { token: "wrong" }).listRecords(), { status: 401, name: "ReverieError" });
});

test("a save whose answer is lost is sent again and done once", async () => {
  let lost = 0;
  const losing = async (...request) => {
    const response = await fetch(...request);
    if (lost++) return response;
    throw new TypeError("connection reset");
  };
  const { data } = await new Reverie(url, { token, fetch: losing }).saveRecord({ content: "Berta likes chess" });
  assert.equal(lost, 2);
  assert.equal(data.outcome, "created");
  assert.equal((await memory.getRecord(data.record.id)).data.seen_count, 1);
});

test("what must not be sent twice is sent once", async () => {
  let sent = 0;
  const failing = async () => {
    sent++;
    throw new TypeError("connection refused");
  };
  const broken = new Reverie(url, { token, patienceMs: 250, fetch: failing });
  await assert.rejects(broken.restoreRecord("a1b2c3d4e5f6"), ReverieUnavailable);
  assert.equal(sent, 1);
  await assert.rejects(broken.listRecords(), ReverieUnavailable);
  assert.equal(sent, 3);
});

test("pages follow each other to the end", async () => {
  const carol = memory.scoped("user:carol");
  const records = Array.from({ length: 7 }, (_, number) => ({ content: `Carol owns bicycle number ${number}` }));
  await carol.saveRecords({ records });
  const sizes = [];
  const seen = new Set();
  for await (const page of paginate((cursor) => carol.listRecords({ cursor, limit: 3, tags: [] }))) {
    sizes.push(page.items.length);
    for (const record of page.items.filter((each) => each.scope === "user:carol")) seen.add(record.id);
  }
  assert.equal(seen.size, 7);
  assert.ok(sizes.length >= 3);
});

test("a path may contain any character", async () => {
  const id = "telegram:1/ü ?#";
  await memory.addTurns(id, { turns: [{ role: "user", content: "hello" }] });
  assert.equal((await memory.listTurns(id)).data.items[0].content, "hello");
});

test("changes are followed while they are made", { timeout: 20_000 }, async () => {
  const stop = new AbortController();
  const changes = memory.streamChanges({ signal: stop.signal });
  const first = changes.next();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const { data } = await memory.saveRecord({ content: "Dora moved to Porto" });
  assert.equal((await first).value.id, data.record.id);
  stop.abort();
  assert.equal((await changes.next()).done, true);
});

test("a stream that ends goes on after the last change seen", { timeout: 20_000 }, async () => {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(new URL(request.url, "http://localhost").searchParams.get("after"));
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const sequence = asked.length + 4;
    response.end(`retry: 3000\n\nid: ${sequence}\ndata: ${JSON.stringify({ sequence })}\n\n: still here\n\n`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const local = new Reverie(`http://127.0.0.1:${server.address().port}`);
  const seen = [];
  for await (const change of local.streamChanges({ after: 4 })) {
    seen.push(change.sequence);
    if (seen.length === 3) break;
  }
  server.close();
  server.closeAllConnections();
  assert.deepEqual(seen, [5, 6, 7]);
  assert.deepEqual(asked, ["4", "5", "6"]);
});

test("every operation has a method", () => {
  for (const name of Object.keys(OPERATIONS)) assert.equal(typeof memory[name], "function");
});
