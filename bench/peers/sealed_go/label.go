package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"time"
)

const (
	epoch       = 1735689600 // 2025-01-01T00:00:00Z
	labelLength = 63
	sivLength   = 16
	plainLength = 22
)

var errLabel = errors.New("no label of ours")

// A key for one domain, expanded once: AES-256-SIV (RFC 5297).
type keyring struct {
	header      byte
	mac, stream cipher.Block
	// The subkeys of CMAC (RFC 4493 §2.3), for a last block that is whole and for one that is not.
	whole, padded [16]byte
	// What the vector begins from: the associated data are the same for all labels.
	start [16]byte
}

func newKeyring(id byte, secret []byte, domain string) *keyring {
	mac, err := aes.NewCipher(secret[:32])
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	stream, err := aes.NewCipher(secret[32:])
	if err != nil {
		panic(err)
	}
	k := &keyring{header: 1<<5 | id, mac: mac, stream: stream}
	mac.Encrypt(k.whole[:], k.whole[:])
	k.whole = doubled(k.whole)
	k.padded = doubled(k.whole)
	domain = strings.TrimPrefix(strings.ToLower(domain), "*.")
	start := doubled(k.cmac(make([]byte, 16)))
	associated := k.cmac(append([]byte{k.header}, domain...))
	subtle.XORBytes(k.start[:], start[:], associated[:])
	return k
}

// open opens the first label of a host name: where the connection goes.
func (k *keyring) open(label string, now time.Time) (netip.AddrPort, error) {
	label = strings.ToUpper(label)
	// The last digit has three spare bits, which are zero.
	if len(label) != labelLength || strings.IndexByte("AIQY", label[labelLength-1]) < 0 {
		return netip.AddrPort{}, errLabel
	}
	bytes, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(label)
	if err != nil || len(bytes) != 1+sivLength+plainLength || bytes[0] != k.header {
		return netip.AddrPort{}, errLabel
	}
	vector, plain := bytes[1:1+sivLength], bytes[1+sivLength:]
	counter := append([]byte(nil), vector...)
	counter[8] &= 0x7f
	counter[12] &= 0x7f
	cipher.NewCTR(k.stream, counter).XORKeyStream(plain, plain)
	ended := append([]byte(nil), plain...)
	subtle.XORBytes(ended[plainLength-16:], ended[plainLength-16:], k.start[:])
	sum := k.cmac(ended)
	if subtle.ConstantTimeCompare(sum[:], vector) != 1 {
		return netip.AddrPort{}, errLabel
	}
	minutes := int64(plain[19])<<16 | int64(plain[20])<<8 | int64(plain[21])
	port := binary.BigEndian.Uint16(plain[17:])
	// An address that is spoken to without TLS: services and TLS are none of this proxy's.
	if plain[0] != 0 || port == 0 || minutes <= (now.Unix()-epoch)/60 {
		return netip.AddrPort{}, errLabel
	}
	address := netip.AddrFrom16([16]byte(plain[1:17])).Unmap()
	return netip.AddrPortFrom(address, port), nil
}

// cmac is RFC 4493: the last block of CBC, with a subkey added to the last block of the text.
func (k *keyring) cmac(text []byte) (sum [16]byte) {
	for ; len(text) > 16; text = text[16:] {
		subtle.XORBytes(sum[:], sum[:], text[:16])
		k.mac.Encrypt(sum[:], sum[:])
	}
	var last [16]byte
	subkey := &k.whole
	if copy(last[:], text) < 16 {
		last[len(text)] = 0x80
		subkey = &k.padded
	}
	subtle.XORBytes(sum[:], sum[:], last[:])
	subtle.XORBytes(sum[:], sum[:], subkey[:])
	k.mac.Encrypt(sum[:], sum[:])
	return sum
}

// doubled doubles in GF(2^128) (RFC 5297 §2.3).
func doubled(block [16]byte) (double [16]byte) {
	for i := range double {
		double[i] = block[i] << 1
		if i < 15 {
			double[i] |= block[i+1] >> 7
		}
	}
	double[15] ^= 0x87 * (block[0] >> 7)
	return double
}
