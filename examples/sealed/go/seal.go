package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net/netip"
	"strings"
)

const (
	epoch       = 1735689600 // 2025-01-01T00:00:00Z
	kindAddress = 0
	kindService = 1
	flagTLS     = 4
)

// plaintext gives the 22 bytes: flags and kind, address or digest, port, expiry (Unix seconds, rounded up to a minute).
func plaintext(secret []byte, target string, expires int64) ([]byte, error) {
	var flags byte
	var body [16]byte
	var port uint16
	if name, found := strings.CutPrefix(target, "service:"); found {
		flags = kindService
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("thalweg sealed service\x00" + name))
		copy(body[:], mac.Sum(nil))
	} else {
		scheme, rest, _ := strings.Cut(target, "://")
		address, err := netip.ParseAddrPort(rest)
		if err != nil || address.Port() == 0 || address.Addr().Zone() != "" || (scheme != "http" && scheme != "https") {
			return nil, errors.New("a target is http://ADDRESS:PORT, https://ADDRESS:PORT or service:NAME")
		}
		flags = kindAddress
		if scheme == "https" {
			flags |= flagTLS
		}
		// As16 maps IPv4 into IPv6.
		body, port = address.Addr().As16(), address.Port()
	}
	minutes := (expires - epoch + 59) / 60
	if expires < epoch || minutes >= 1<<24 {
		return nil, errors.New("a label expires between 2025 and November 2056")
	}
	plain := append([]byte{flags}, body[:]...)
	return append(plain, byte(port>>8), byte(port), byte(minutes>>16), byte(minutes>>8), byte(minutes)), nil
}

// seal gives a label that the key with this id seals for the hosts below a domain.
func seal(secret []byte, key int, domain, target string, expires int64) (string, error) {
	if len(secret) != 64 {
		return "", errors.New("a secret has 128 hex digits")
	}
	if key < 1 || key > 31 {
		return "", errors.New("the id of a key is from 1 to 31")
	}
	plain, err := plaintext(secret, target, expires)
	if err != nil {
		return "", err
	}
	domain = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(domain), "*."), ".")
	header := []byte{1<<5 | byte(key)}
	sealed := siv(secret, append(header, domain...), plain)
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append(header, sealed...))
	return strings.ToLower(text), nil
}
