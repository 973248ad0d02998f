// A small proxy in Node whose connections name their target in the first label of a host name, encrypted.
//
// Not part of the product: a contestant of `cargo xtask bench sealed`, as such programs are commonly written: net sockets
// that are piped into each other, one process as in the published experiment. It reads the head of the first request or the
// first message of TLS (hello.mjs), opens the label (label.mjs), connects, and hands on whatever comes. The format is told in
// docs/reference/sealed.md.
//
// usage: SEAL_KEY=<128 hex digits> node main.mjs WEB RAW DOMAIN, both ports as address:port

import { connect, createServer } from "node:net";
import { serverName } from "./hello.mjs";
import { Keyring } from "./label.mjs";

// Milliseconds for the head of a request or the first message of TLS.
const PATIENCE = 10_000;
// The most that either may have.
const MOST = 16 << 10;

// Finds the host of a request in HTTP/1.1 once its head is whole; undefined until then, and null when there is none.
function requestHost(begin) {
  const end = begin.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  return /\r\nhost:[ \t]*([^\r]*)/i.exec(begin.latin1Slice(0, end))?.[1] ?? null;
}

// Handles a connection from its first byte to its last.
function handle(client, keys, find) {
  let begin = Buffer.alloc(0);
  const giveUp = () => client.destroy();
  const onData = (bytes) => {
    begin = begin.length === 0 ? bytes : Buffer.concat([begin, bytes]);
    const host = find(begin);
    if (host === undefined && begin.length <= MOST) return;
    client.off("data", onData).pause();
    const target = host ? keys.open(host.split(".", 1)[0]) : null;
    if (target === null) return giveUp();
    const server = connect({ ...target, noDelay: true, allowHalfOpen: true }, () => {
      client.setTimeout(0);
      server.write(begin);
      client.pipe(server);
      server.pipe(client);
    });
    server.on("error", giveUp);
    client.on("close", () => server.destroy());
  };
  client.setTimeout(PATIENCE, giveUp);
  client.on("error", giveUp).on("data", onData);
}

const [web, raw, domain] = process.argv.slice(2);
const secret = Buffer.from(process.env.SEAL_KEY ?? "", "hex");
if (!domain || secret.length !== 64) {
  console.error("usage: SEAL_KEY=<128 hex digits> node main.mjs WEB RAW DOMAIN");
  process.exit(2);
}
const keys = new Keyring(1, secret, domain);
for (const [address, find] of [[web, requestHost], [raw, serverName]]) {
  const [host, port] = address.split(":");
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => handle(client, keys, find));
  server.listen({ host, port: Number(port) });
}
