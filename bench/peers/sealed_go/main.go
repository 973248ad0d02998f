// A small proxy in Go whose connections name their target in the first label of a host name, encrypted.
//
// Not part of the product: a contestant of `cargo xtask bench sealed`, as such programs are commonly written: a goroutine for each
// direction of a connection, and io.Copy. It reads the head of the first request or the first message of TLS, opens the
// label (label.go), connects, and hands on whatever comes. The format is told in docs/reference/sealed.md.
//
// usage: SEAL_KEY=<128 hex digits> sealed_go WEB RAW DOMAIN, both ports as address:port
package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"
)

const (
	// Time for the head of a request or the first message of TLS, and for connecting to a target.
	patience = 10 * time.Second
	// The most that either may have.
	mostHead = 16 << 10
	// Time between two attempts to accept while there are no descriptors, as in net/http.
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// Finds the host name in the begin of a connection: empty while more is needed.
type finder func(begin []byte) (host string, err error)

func main() {
	secret, err := hex.DecodeString(os.Getenv("SEAL_KEY"))
	if len(os.Args) != 4 || err != nil || len(secret) != 64 {
		fmt.Fprintln(os.Stderr, "usage: SEAL_KEY=<128 hex digits> sealed_go WEB RAW DOMAIN")
		os.Exit(2)
	}
	keys := newKeyring(1, secret, os.Args[3])
	web, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	raw, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	go serve(raw.(*net.TCPListener), keys, serverName)
	serve(web.(*net.TCPListener), keys, requestHost)
}

func serve(listener *net.TCPListener, keys *keyring, find finder) {
	pause := leastPause
	for {
		client, err := listener.AcceptTCP()
		if err != nil {
			time.Sleep(pause)
			pause = min(pause*2, mostPause)
			continue
		}
		pause = leastPause
		go handle(client, keys, find)
	}
}

// Handles a connection from its first byte to its last.
func handle(client *net.TCPConn, keys *keyring, find finder) {
	defer client.Close()
	client.SetReadDeadline(time.Now().Add(patience))
	begin, host, err := readBegin(client, find)
	if err != nil {
		return
	}
	label, _, _ := strings.Cut(host, ".")
	target, err := keys.open(label, time.Now())
	if err != nil {
		return
	}
	connection, err := net.DialTimeout("tcp", target.String(), patience)
	if err != nil {
		return
	}
	server := connection.(*net.TCPConn)
	defer server.Close()
	client.SetReadDeadline(time.Time{})
	if _, err := server.Write(begin); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		hand(server, client)
		close(done)
	}()
	hand(client, server)
	<-done
}

// Hands on what comes from one side, then its end. An error ends both directions.
func hand(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	to.CloseWrite()
}

// Reads until the host name is known.
func readBegin(client *net.TCPConn, find finder) ([]byte, string, error) {
	buffer := make([]byte, 0, 2048)
	for len(buffer) < mostHead {
		if len(buffer) == cap(buffer) {
			buffer = append(buffer, 0)[:len(buffer)]
		}
		count, err := client.Read(buffer[len(buffer):cap(buffer)])
		if err != nil {
			return nil, "", err
		}
		buffer = buffer[:len(buffer)+count]
		host, err := find(buffer)
		if err != nil || host != "" {
			return buffer, host, err
		}
	}
	return nil, "", errors.New("the begin is too long")
}

// Finds the host of a request in HTTP/1.1 once its head is whole.
func requestHost(begin []byte) (string, error) {
	end := bytes.Index(begin, []byte("\r\n\r\n"))
	if end < 0 {
		return "", nil
	}
	for _, line := range strings.Split(string(begin[:end]), "\r\n")[1:] {
		name, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(name, "host") {
			return strings.TrimSpace(value), nil
		}
	}
	return "", errors.New("no host")
}
