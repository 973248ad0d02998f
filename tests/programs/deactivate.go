// Ends an account with an authority (RFC 8555 §7.3.6), from the file in which the proxy keeps it.
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

var text = base64.RawURLEncoding.EncodeToString

func main() {
	var kept struct {
		Credentials struct {
			ID        string `json:"id"`
			Key       string `json:"key_pkcs8"`
			Directory string `json:"directory"`
		} `json:"credentials"`
	}
	file, err := os.ReadFile(os.Args[1])
	check(err)
	check(json.Unmarshal(file, &kept))
	der, err := base64.RawURLEncoding.DecodeString(kept.Credentials.Key)
	check(err)
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	check(err)
	key := parsed.(*ecdsa.PrivateKey)

	// The authority of a test.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var directory struct{ NewNonce string }
	answer, err := client.Get(kept.Credentials.Directory)
	check(err)
	check(json.NewDecoder(answer.Body).Decode(&directory))

	// Some nonces are refused.
	for range 30 {
		answer, err := client.Head(directory.NewNonce)
		check(err)
		header, err := json.Marshal(map[string]string{
			"alg": "ES256", "kid": kept.Credentials.ID, "url": kept.Credentials.ID,
			"nonce": answer.Header.Get("Replay-Nonce"),
		})
		check(err)
		protected, payload := text(header), text([]byte(`{"status":"deactivated"}`))
		digest := sha256.Sum256([]byte(protected + "." + payload))
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		check(err)
		signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		body, err := json.Marshal(map[string]string{
			"protected": protected, "payload": payload, "signature": text(signature),
		})
		check(err)
		answer, err = client.Post(kept.Credentials.ID, "application/jose+json", bytes.NewReader(body))
		check(err)
		said, err := io.ReadAll(answer.Body)
		check(err)
		if answer.StatusCode == http.StatusOK {
			return
		}
		if !strings.Contains(string(said), "badNonce") {
			log.Fatalf("%s: %s", answer.Status, said)
		}
	}
	log.Fatal("every nonce was refused")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
