// Mints labels of sealed destinations. Needs Node 18 or newer and no package.
//
//     SEAL_KEY=<128 hex digits> node seal.mjs KEY_ID DOMAIN TARGET TTL_SECONDS
//     node seal.mjs --vectors ../../../docs/reference/sealed-vectors.json
//
// TARGET is http://ADDRESS:PORT, https://ADDRESS:PORT or service:NAME; IPv6 stands in brackets. The format is told in
// docs/reference/sealed.md.

import { createCipheriv, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { isIPv4, isIPv6 } from "node:net";

const EPOCH = 1735689600; // 2025-01-01T00:00:00Z
const KIND_ADDRESS = 0, KIND_SERVICE = 1, TLS = 4;

const xor = (a, b) => Buffer.from(a.map((byte, i) => byte ^ b[i]));

// Doubling in GF(2^128) (RFC 5297 §2.3).
function doubled(block) {
  const value = BigInt("0x" + block.toString("hex"));
  const next = BigInt.asUintN(128, value << 1n) ^ (value >> 127n) * 0x87n;
  return Buffer.from(next.toString(16).padStart(32, "0"), "hex");
}

// CMAC (RFC 4493): the last block of CBC, with a subkey added to the last block of the text.
function cmac(key, text) {
  const ecb = createCipheriv("aes-256-ecb", key, null).setAutoPadding(false);
  const whole = doubled(ecb.update(Buffer.alloc(16)));
  const at = Math.max(0, Math.ceil(text.length / 16) - 1) * 16;
  let last = text.subarray(at);
  if (last.length === 16) last = xor(last, whole);
  else last = xor(Buffer.concat([last, Buffer.from([0x80]), Buffer.alloc(15 - last.length)]), doubled(whole));
  const cbc = createCipheriv("aes-256-cbc", key, Buffer.alloc(16)).setAutoPadding(false);
  return cbc.update(Buffer.concat([text.subarray(0, at), last])).subarray(-16);
}

// AES-256-SIV (RFC 5297 §2.6) with one component of associated data and a text of at least 16 bytes.
function siv(secret, associated, plain) {
  const mac = secret.subarray(0, 32), stream = secret.subarray(32);
  const state = xor(doubled(cmac(mac, Buffer.alloc(16))), cmac(mac, associated));
  const end = plain.length - 16;
  const vector = cmac(mac, Buffer.concat([plain.subarray(0, end), xor(plain.subarray(end), state)]));
  const counter = Buffer.from(vector);
  counter[8] &= 0x7f;
  counter[12] &= 0x7f;
  return Buffer.concat([vector, createCipheriv("aes-256-ctr", stream, counter).update(plain)]);
}

function base32(bytes) {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const digit = (five) => "abcdefghijklmnopqrstuvwxyz234567"[parseInt(five.padEnd(5, "0"), 2)];
  return bits.match(/.{1,5}/g).map(digit).join("");
}

// The 16 bytes of an address; IPv4 is mapped into IPv6.
function packed(address) {
  if (isIPv4(address)) return Buffer.from([...Array(10).fill(0), 255, 255, ...address.split(".").map(Number)]);
  if (!isIPv6(address) || address.includes("%")) throw new Error(`${address} is no address`);
  // The URL parser writes what ends like IPv4 in hex, too.
  const [front, back] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (part) => (part ? part.split(":") : []);
  const missing = back === undefined ? 0 : 8 - groups(front).length - groups(back).length;
  const all = [...groups(front), ...Array(missing).fill("0"), ...groups(back)];
  return Buffer.from(all.map((group) => group.padStart(4, "0")).join(""), "hex");
}

// The 22 bytes: flags and kind, address or digest, port, expiry (Unix seconds, rounded up to a minute).
function plaintext(secret, target, expires) {
  const plain = Buffer.alloc(22);
  const address = /^(https?):\/\/(?:\[(.+)\]|([0-9.]+)):([0-9]+)$/.exec(target);
  if (address) {
    const [, scheme, v6, v4, port] = address;
    plain[0] = KIND_ADDRESS | (scheme === "https" ? TLS : 0);
    packed(v6 ?? v4).copy(plain, 1);
    if (Number(port) < 1 || Number(port) > 65535) throw new Error("a port is from 1 to 65535");
    plain.writeUInt16BE(Number(port), 17);
  } else if (target.startsWith("service:")) {
    plain[0] = KIND_SERVICE;
    const name = target.slice("service:".length);
    createHmac("sha256", secret).update("thalweg sealed service\0" + name).digest().copy(plain, 1, 0, 16);
  } else throw new Error("a target is http://ADDRESS:PORT, https://ADDRESS:PORT or service:NAME");
  const minutes = Math.ceil((expires - EPOCH) / 60);
  if (!(minutes >= 0 && minutes < 1 << 24)) throw new Error("a label expires between 2025 and November 2056");
  plain.writeUIntBE(minutes, 19, 3);
  return plain;
}

// A label that the key with this id seals for the hosts below a domain.
function seal(secret, key, domain, target, expires) {
  if (secret.length !== 64) throw new Error("a secret has 128 hex digits");
  if (!Number.isInteger(key) || key < 1 || key > 31) throw new Error("the id of a key is from 1 to 31");
  const header = Buffer.from([1 << 5 | key]);
  const name = Buffer.from(domain.toLowerCase().replace(/^\*\./, "").replace(/\.$/, ""));
  const sealed = siv(secret, Buffer.concat([header, name]), plaintext(secret, target, expires));
  return base32(Buffer.concat([header, sealed]));
}

// Compares every vector of a file; whether all agree.
function check(path) {
  const vectors = JSON.parse(readFileSync(path, "utf8")).sealed;
  const differs = ({ secret, key, domain, target, expires, plain, label }) => {
    const bytes = Buffer.from(secret, "hex");
    const ours = seal(bytes, key, domain, target, expires);
    if (ours === label && plaintext(bytes, target, expires).toString("hex") === plain) return false;
    console.error(`${target}: ${ours}, but the file says ${label}`);
    return true;
  };
  const wrong = vectors.filter(differs).length;
  console.log(`${vectors.length} vectors, ${wrong} differ`);
  return vectors.length > 0 && wrong === 0;
}

const args = process.argv.slice(2);
try {
  if (args.length === 2 && args[0] === "--vectors") process.exitCode = check(args[1]) ? 0 : 1;
  else if (args.length === 4 && /^[0-9]+$/.test(args[3])) {
    const [key, domain, target, ttl] = args;
    const secret = Buffer.from(process.env.SEAL_KEY ?? "", "hex");
    console.log(seal(secret, Number(key), domain, target, Math.floor(Date.now() / 1000) + Number(ttl)));
  } else throw new Error("usage: node seal.mjs KEY_ID DOMAIN TARGET TTL_SECONDS | --vectors FILE");
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
