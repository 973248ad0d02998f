// Opening labels: AES-256-SIV (RFC 5297) with the ciphers of OpenSSL that Node has.

import { createCipheriv, createDecipheriv, timingSafeEqual } from "node:crypto";

const EPOCH = 1735689600; // 2025-01-01T00:00:00Z
const LENGTH = 63;
const DIGITS = "abcdefghijklmnopqrstuvwxyz234567";
const ZERO = Buffer.alloc(16);
const MAPPED = Buffer.from("00000000000000000000ffff", "hex");

function xor(a, b) {
  const sum = Buffer.alloc(16);
  for (let i = 0; i < 16; i++) sum[i] = a[i] ^ b[i];
  return sum;
}

// Doubling in GF(2^128) (RFC 5297 §2.3).
function doubled(block) {
  const double = Buffer.alloc(16);
  for (let i = 0; i < 16; i++) double[i] = block[i] << 1 | (i < 15 ? block[i + 1] >> 7 : 0);
  double[15] ^= 0x87 * (block[0] >> 7);
  return double;
}

// The 39 bytes of a label; null when it is none.
function base32(label) {
  if (label.length !== LENGTH) return null;
  const bytes = Buffer.alloc(39);
  let held = 0, bits = 0, at = 0;
  for (const digit of label.toLowerCase()) {
    const value = DIGITS.indexOf(digit);
    if (value < 0) return null;
    held = (held << 5 | value) & 0xfff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes[at++] = held >> bits;
    }
  }
  // Three spare bits, which are zero.
  return (held & 7) === 0 ? bytes : null;
}

// A key for one domain, expanded as far as Node allows.
export class Keyring {
  constructor(id, secret, domain) {
    this.header = 1 << 5 | id;
    this.mac = secret.subarray(0, 32);
    this.stream = secret.subarray(32);
    // The subkeys of CMAC (RFC 4493 §2.3), for a last block that is whole and for one that is not.
    const ecb = createCipheriv("aes-256-ecb", this.mac, null).setAutoPadding(false);
    this.whole = doubled(ecb.update(ZERO));
    this.padded = doubled(this.whole);
    const name = Buffer.from(domain.toLowerCase().replace(/^\*\./, ""));
    const associated = Buffer.concat([Buffer.from([this.header]), name]);
    // What the vector begins from: the associated data are the same for all labels.
    this.start = xor(doubled(this.cmac(ZERO)), this.cmac(associated));
  }

  // CMAC (RFC 4493): the last block of CBC, with a subkey added to the last block of the text.
  cmac(text) {
    const at = Math.max(0, Math.ceil(text.length / 16) - 1) * 16;
    let last = text.subarray(at);
    if (last.length === 16) last = xor(last, this.whole);
    else last = xor(Buffer.concat([last, Buffer.from([0x80]), ZERO], 16), this.padded);
    const cbc = createCipheriv("aes-256-cbc", this.mac, ZERO).setAutoPadding(false);
    return cbc.update(Buffer.concat([text.subarray(0, at), last])).subarray(-16);
  }

  // Opens the first label of a host name: where the connection goes, or null.
  open(label) {
    const bytes = base32(label);
    if (bytes === null || bytes[0] !== this.header) return null;
    const vector = bytes.subarray(1, 17), counter = Buffer.from(vector);
    counter[8] &= 0x7f;
    counter[12] &= 0x7f;
    const plain = createDecipheriv("aes-256-ctr", this.stream, counter).update(bytes.subarray(17));
    const ended = Buffer.concat([plain.subarray(0, 6), xor(plain.subarray(6), this.start)]);
    if (!timingSafeEqual(this.cmac(ended), vector)) return null;
    const port = plain.readUInt16BE(17), minutes = plain.readUIntBE(19, 3);
    // An address that is spoken to without TLS: services and TLS are none of this proxy's.
    if (plain[0] !== 0 || port === 0 || minutes <= Math.floor((Date.now() / 1000 - EPOCH) / 60)) return null;
    return { host: address(plain.subarray(1, 17)), port };
  }
}

// The text of 16 bytes; IPv4 stands mapped into IPv6.
function address(bytes) {
  if (bytes.subarray(0, 12).equals(MAPPED)) return bytes.subarray(12).join(".");
  return bytes.toString("hex").match(/.{4}/g).join(":");
}
