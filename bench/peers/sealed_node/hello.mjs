// The name of the server in the first message of a TLS handshake.

// A cursor over a message; what reads past the end throws a RangeError.
class Cursor {
  constructor(bytes) {
    this.rest = bytes;
  }

  take(count) {
    if (count > this.rest.length) throw new RangeError("the message is cut short");
    const taken = this.rest.subarray(0, count);
    this.rest = this.rest.subarray(count);
    return taken;
  }

  number(size) {
    return this.take(size).readUIntBE(0, size);
  }

  // What stands behind its length of so many bytes.
  vector(size) {
    return new Cursor(this.take(this.number(size)));
  }
}

// Finds the name in a ClientHello (RFC 8446 §4.1.2, RFC 6066 §3) that comes in one record: undefined until it is whole, null
// when there is none.
export function serverName(begin) {
  if (begin.length < 5) return undefined;
  if (begin[0] !== 22) return null;
  if (begin.length < 5 + begin.readUInt16BE(3)) return undefined;
  try {
    const record = new Cursor(begin.subarray(5));
    if (record.number(1) !== 1) return null;
    const hello = record.vector(3);
    hello.take(2 + 32);
    hello.vector(1); // session
    hello.vector(2); // suites
    hello.vector(1); // ways of compression
    const extensions = hello.vector(2);
    while (extensions.rest.length > 0) {
      const kind = extensions.number(2), content = extensions.vector(2);
      if (kind !== 0) continue;
      const names = content.vector(2);
      if (names.number(1) === 0) return names.vector(2).rest.latin1Slice() || null;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return null;
}
