// Use every method of mem0's client from npm against a server: `node mem0_scene.mjs FOLDER URL`.
// FOLDER is that of the package mem0ai; `scripts/install_typescript.sh` installs it.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

process.env.MEM0_TELEMETRY = "false";
const [folder, host] = process.argv.slice(2);
const { MemoryClient } = await import(pathToFileURL(`${folder}/dist/index.mjs`));
const client = new MemoryClient({ apiKey: "none", host });
const filters = { user_id: "alice" };
const used = new Set();

function use(name, ...values) {
  used.add(name);
  return client[name](...values);
}

await use("ping");
const added = await use("add", [{ role: "user", content: "I live in Bergen and play the harp" }], { userId: "alice" });
assert.equal(added.results[0].event, "ADD");
await use("add", [{ role: "user", content: "My bike is red" }], { userId: "alice", infer: false });
assert.equal((await use("search", "who plays the harp?", { filters })).results[0].id, added.results[0].id);
const bike = (await use("getAll", { filters })).results.find((each) => each.memory === "My bike is red");
assert.equal((await use("get", bike.id)).userId, "alice");
assert.equal((await use("update", bike.id, { text: "My bike is blue" })).memory, "My bike is blue");
assert.deepEqual((await use("history", bike.id)).map((each) => each.event), ["ADD", "UPDATE"]);
await use("batchUpdate", [{ memoryId: bike.id, text: "My bike is green" }]);
assert.equal((await use("users")).results[0].name, "alice");
await use("delete", added.results[0].id);
await use("batchDelete", [bike.id]);
assert.equal((await use("getAll", { filters })).results.length, 0);
await assert.rejects(use("get", "ffffffffffff"), { name: "MemoryNotFoundError" });
for (const method of ["deleteAll", "deleteUser", "deleteUsers"]) {
  await use("add", [{ role: "user", content: `Said before ${method}` }], { userId: "alice", infer: false });
  await use(method, method === "deleteUser" ? { entity_id: "user:alice", entity_type: "user" } : { userId: "alice" });
  assert.equal((await use("getAll", { filters })).results.length, 0, method);
}
const unsupported = {
  createMemoryExport: [{ schema: {}, filters }],
  createWebhook: [{ projectId: "p", url: "https://example.com", name: "w", eventTypes: [] }],
  deleteWebhook: [{ webhookId: "1" }],
  feedback: [{ memoryId: bike.id, feedback: "POSITIVE" }],
  generateProfile: [{ userId: "alice" }],
  getMemoryExport: [{ memoryExportId: "1" }],
  getProfile: [{ userId: "alice" }],
  getProfileJob: ["1"],
  getProfileSettings: [],
  getProject: [{ fields: [] }],
  getWebhooks: [{ projectId: "p" }],
  sampleProfiles: [{}],
  updateProfileSettings: [{}],
  updateProject: [{ customInstructions: "x" }],
  updateWebhook: [{ webhookId: "1", name: "w" }],
};
for (const [method, values] of Object.entries(unsupported)) {
  await assert.rejects(use(method, ...values), /There is nothing at|404/, method);
}
const methods = Object.getOwnPropertyNames(MemoryClient.prototype).filter(
  (name) => name !== "constructor" && !name.startsWith("_"),
);
const unused = methods.filter((name) => !used.has(name) && !/^(ping|prepare)/.test(name));
assert.deepEqual(unused, []);
console.log("client from npm done");
process.exit(0);
