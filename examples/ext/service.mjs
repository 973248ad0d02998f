// A service for the filter `ext`, with Node's standard library: PORT=9100 node service.mjs
import { createServer } from "node:http";

// The answer to a request: see docs/guide/ext.md for what may stand in either.
function decide(request) {
  const fields = Object.fromEntries(request.fields.map(([name, value]) => [String(name).toLowerCase(), value]));
  if (fields["x-api-key"] !== "secret") {
    return { decision: "respond", status: 401, fields: { "X-Reason": "no key" }, body: "a key is needed\n" };
  }
  const body = Buffer.from(request.body_base64 ?? "", "base64");
  if (body.includes("attack")) {
    return { decision: "respond", status: 403, body: "not this\n", reason: "the body has an attack" };
  }
  const answer = { decision: "continue", set_fields: { "X-User": "ada" }, remove_fields: ["X-Api-Key"] };
  if (request.path.startsWith("/old/")) answer.path = "/new/" + request.path.slice("/old/".length);
  return answer;
}

const server = createServer(async (question, response) => {
  try {
    const pieces = [];
    for await (const piece of question) pieces.push(piece);
    const answer = JSON.stringify(decide(JSON.parse(Buffer.concat(pieces))));
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
    response.end(answer);
  } catch {
    response.writeHead(500).end();
  }
});
server.listen(Number(process.env.PORT ?? 9100), "127.0.0.1", () => console.log(`port ${server.address().port}`));
