// Serves the plugin over HTTP: signatures, Idempotency-Keys, health, a graceful stop. Start: node server.js @PORT@
import crypto from "node:crypto";
import http from "node:http";

import { answer, Rejected } from "./plugin.js";

const MAX_BODY = 64 * 1024 * 1024;
const MAX_REMEMBERED = 10_000;
const TOLERANCE = 300; // seconds
const secret = process.env.PLUGIN_SIGNING_SECRET;
const key = secret && Buffer.from(secret.replace(/^whsec_/, ""), "base64");
const remembered = new Map();
let stopping = false;

function isSigned(headers, body) {
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!/^\d{1,15}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE) return false;
  const signed = crypto.createHmac("sha256", key).update(`${headers["webhook-id"]}.${timestamp}.`).update(body);
  const expected = Buffer.from("v1," + signed.digest("base64"));
  return (headers["webhook-signature"] ?? "").split(" ").some((given) => {
    const bytes = Buffer.from(given);
    return bytes.length === expected.length && crypto.timingSafeEqual(bytes, expected);
  });
}

// The same question gets the same answer, also when it is asked twice at the same time.
async function answerOnce(headers, body, packet) {
  const name = headers["idempotency-key"];
  if (!name) return await answer(packet);
  const id = name + " " + crypto.createHash("sha256").update(body).digest("hex");
  if (!remembered.has(id)) {
    const given = Promise.resolve().then(() => answer(packet));
    remembered.set(id, given);
    // What failed, and what is to be sent again, is asked anew.
    given.then((value) => value === "RE" && remembered.delete(id), () => remembered.delete(id));
    if (remembered.size > MAX_REMEMBERED) remembered.delete(remembered.keys().next().value);
  }
  return await remembered.get(id);
}

function reply(response, status, document) {
  const text = typeof document === "string";
  const body = Buffer.from(text ? document : JSON.stringify(document));
  const headers = { "Content-Type": text ? "text/plain" : "application/json", "Content-Length": body.length };
  response.writeHead(status, stopping ? { ...headers, Connection: "close" } : headers).end(body);
  return status;
}

async function handle(request, response) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size <= MAX_BODY) parts.push(part);
  }
  if (size > MAX_BODY) return reply(response, 413, { error: "the body is too large" });
  if (request.method === "GET" && request.url === "/healthz") {
    return reply(response, stopping ? 503 : 200, { status: stopping ? "stopping" : "ok" });
  }
  if (request.method !== "POST") return reply(response, 405, { error: "send a packet with POST" });
  const body = Buffer.concat(parts);
  if (key && !isSigned(request.headers, body)) return reply(response, 401, { error: "the signature is not right" });
  let packet;
  try {
    packet = JSON.parse(body);
  } catch {
    return reply(response, 400, { error: "the body is not JSON" });
  }
  if (typeof packet !== "object" || packet === null || Array.isArray(packet)) {
    return reply(response, 400, { error: "the body is not a JSON object" });
  }
  try {
    return reply(response, 200, await answerOnce(request.headers, body, packet));
  } catch (error) {
    if (error instanceof Rejected) return reply(response, 422, { error: error.message });
    console.error(JSON.stringify({ level: "error", message: String(error.stack) }));
    return reply(response, 500, { error: "the plugin failed; its log has the reason" });
  }
}

const server = http.createServer(async (request, response) => {
  try {
    const status = await handle(request, response);
    const { "x-job-id": jobID, "x-request-id": requestID } = request.headers;
    console.log(JSON.stringify({ time: new Date(), level: "info", message: "answered", status, jobID, requestID }));
  } catch {
    response.destroy(); // The client has gone.
  }
});
server.keepAliveTimeout = 75_000;
server.headersTimeout = 80_000;

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    stopping = true;
    server.close(() => process.exit(0));
    server.closeIdleConnections();
    setTimeout(() => process.exit(1), 25_000).unref();
  });
}

const [port = "@PORT@", host = "127.0.0.1"] = process.argv.slice(2);
server.listen({ port: Number(port), host, backlog: 256 }, () => {
  console.log(`listening on http://${host}:${server.address().port}`);
});
