// Seal mints labels of sealed destinations, with the standard library alone.
//
//	SEAL_KEY=<128 hex digits> go run . KEY_ID DOMAIN TARGET TTL_SECONDS
//	go run . --vectors ../../../docs/reference/sealed-vectors.json
//
// TARGET is http://ADDRESS:PORT, https://ADDRESS:PORT or service:NAME; IPv6 stands in brackets. The format is told in
// docs/reference/sealed.md.
package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// check compares every vector of a file.
func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		Sealed []struct {
			Secret, Domain, Target, Plain, Label string
			Key                                  int
			Expires                              int64
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	wrong := 0
	for _, vector := range file.Sealed {
		secret, _ := hex.DecodeString(vector.Secret)
		plain, _ := plaintext(secret, vector.Target, vector.Expires)
		label, err := seal(secret, vector.Key, vector.Domain, vector.Target, vector.Expires)
		if err != nil || label != vector.Label || hex.EncodeToString(plain) != vector.Plain {
			wrong++
			fmt.Fprintf(os.Stderr, "%s: %s %v, but the file says %s\n", vector.Target, label, err, vector.Label)
		}
	}
	fmt.Printf("%d vectors, %d differ\n", len(file.Sealed), wrong)
	if wrong > 0 || len(file.Sealed) == 0 {
		return errors.New("the vectors do not agree")
	}
	return nil
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "--vectors" {
		return check(args[1])
	}
	if len(args) != 4 {
		return errors.New("usage: seal KEY_ID DOMAIN TARGET TTL_SECONDS | --vectors FILE")
	}
	key, _ := strconv.Atoi(args[0])
	ttl, err := strconv.ParseUint(args[3], 10, 31)
	if err != nil {
		return errors.New("the time to live is a number of seconds")
	}
	secret, _ := hex.DecodeString(os.Getenv("SEAL_KEY"))
	label, err := seal(secret, key, args[1], args[2], time.Now().Unix()+int64(ttl))
	if err == nil {
		fmt.Println(label)
	}
	return err
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
