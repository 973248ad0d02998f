package main

import "errors"

var errHello = errors.New("no TLS with a server name")

// A cursor over a message of TLS. What reads past the end sets bad.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) take(count int) []byte {
	if count > len(c.rest) {
		c.bad, c.rest = true, nil
		return make([]byte, min(count, 4))
	}
	taken := c.rest[:count]
	c.rest = c.rest[count:]
	return taken
}

// number reads a number of so many bytes.
func (c *cursor) number(size int) int {
	value := 0
	for _, b := range c.take(size) {
		value = value<<8 | int(b)
	}
	return value
}

// vector reads what stands behind its length of so many bytes.
func (c *cursor) vector(size int) cursor {
	return cursor{rest: c.take(c.number(size))}
}

// serverName finds the name of the server in a ClientHello (RFC 8446 §4.1.2, RFC 6066 §3) that comes in one record.
func serverName(begin []byte) (string, error) {
	if len(begin) < 5 {
		return "", nil
	}
	if begin[0] != 22 {
		return "", errHello
	}
	record := cursor{rest: begin[3:]}
	if length := record.number(2); length > len(record.rest) {
		return "", nil
	}
	if record.number(1) != 1 {
		return "", errHello
	}
	hello := record.vector(3)
	hello.take(2 + 32)
	hello.vector(1) // session
	hello.vector(2) // suites
	hello.vector(1) // ways of compression
	extensions := hello.vector(2)
	for len(extensions.rest) > 0 {
		kind, content := extensions.number(2), extensions.vector(2)
		if kind == 0 {
			names := content.vector(2)
			if names.number(1) == 0 {
				name := names.vector(2)
				if len(name.rest) > 0 {
					return string(name.rest), nil
				}
			}
		}
	}
	return "", errHello
}
