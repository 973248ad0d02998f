package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// siv seals with AES-256-SIV (RFC 5297 §2.6): one component of associated data, a text of at least 16 bytes. It gives
// the vector and the sealed text.
func siv(secret, associated, plain []byte) []byte {
	mac, stream := block(secret[:32]), block(secret[32:])
	state := doubled(cmac(mac, make([]byte, 16)))
	subtle.XORBytes(state, state, cmac(mac, associated))
	ended := append([]byte(nil), plain...)
	end := ended[len(ended)-16:]
	subtle.XORBytes(end, end, state)
	vector := cmac(mac, ended)
	counter := append([]byte(nil), vector...)
	counter[8] &= 0x7f
	counter[12] &= 0x7f
	sealed := make([]byte, len(plain))
	cipher.NewCTR(stream, counter).XORKeyStream(sealed, plain)
	return append(vector, sealed...)
}

// cmac is RFC 4493: the last block of CBC, with a subkey added to the last block of the text.
func cmac(mac cipher.Block, text []byte) []byte {
	subkey := make([]byte, 16)
	mac.Encrypt(subkey, subkey)
	subkey = doubled(subkey)
	sum := make([]byte, 16)
	for ; len(text) > 16; text = text[16:] {
		subtle.XORBytes(sum, sum, text[:16])
		mac.Encrypt(sum, sum)
	}
	last := make([]byte, 16)
	if copy(last, text) < 16 {
		last[len(text)] = 0x80
		subkey = doubled(subkey)
	}
	subtle.XORBytes(sum, sum, last)
	subtle.XORBytes(sum, sum, subkey)
	mac.Encrypt(sum, sum)
	return sum
}

// doubled doubles in GF(2^128) (RFC 5297 §2.3).
func doubled(block []byte) []byte {
	double := make([]byte, 16)
	for i := range double {
		double[i] = block[i] << 1
		if i < 15 {
			double[i] |= block[i+1] >> 7
		}
	}
	double[15] ^= 0x87 * (block[0] >> 7)
	return double
}

func block(key []byte) cipher.Block {
	cipher, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	return cipher
}
