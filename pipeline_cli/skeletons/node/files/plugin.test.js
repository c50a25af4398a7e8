// What the plugin answers to a packet that was recorded. Run: node --test
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { answer } from "./plugin.js";

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url)));

test("the answer is the one that was recorded", async () => {
  assert.deepEqual(await answer(read("packet.json")), read("answer.json"));
});
