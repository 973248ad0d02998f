// A client that uses what Go's net/http has, against the service of tests/scenario/runtimes.rs.
//
// Its arguments are the base URL and what it speaks: nothing for HTTP/1.1, `h2c` for HTTP/2 by prior knowledge, or `h2`
// and the file of the certificate that it trusts. It ends with 0 when every answer was what it has to be, and otherwise
// says what was not.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Time for one exchange: a busy machine and a debug build need some of it.
	patience = 20 * time.Second
	// Requests side by side, and how many each of their goroutines makes.
	goroutines = 40
	requests   = 50
	// Bytes of the body under /large.
	large = 10_000_000
	// Bytes of an upload that fits no buffer on its way.
	upload = 16 << 20
)

var (
	base      string
	protocol  = "HTTP/1.1"
	transport = &http.Transport{
		DisableCompression:    true,
		MaxIdleConnsPerHost:   goroutines,
		ExpectContinueTimeout: patience,
	}
	client = &http.Client{Timeout: patience, Transport: transport}
)

// What a connection and an interim response told while a request ran.
type traced struct {
	reused    bool
	continued bool
}

func main() {
	base = os.Args[1]
	if len(os.Args) > 2 {
		protocol = "HTTP/2.0"
		if err := speakHTTP2(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"keep-alive", keepAlive},
		{"many goroutines", manyGoroutines},
		{"uploads", uploads},
		{"trailers", trailers},
		{"100-continue", expectContinue},
		{"large bodies", largeBodies},
		{"early response", earlyResponse},
	} {
		if err := step.run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", step.name, err)
			os.Exit(1)
		}
	}
	fmt.Println("all served")
}

// Makes the transport speak HTTP/2 and nothing else.
func speakHTTP2(arguments []string) error {
	if arguments[0] == "h2" {
		trusted, err := os.ReadFile(arguments[1])
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
		// It would speak HTTP/1.1 with a configuration of TLS that is not its own.
		transport.ForceAttemptHTTP2 = true
		return nil
	}
	// transport.Protocols.SetUnencryptedHTTP2(true), said so that a Go before 1.24 builds this file.
	field := reflect.ValueOf(transport).Elem().FieldByName("Protocols")
	if !field.IsValid() {
		return errors.New("this Go has no HTTP/2 without TLS")
	}
	protocols := reflect.New(field.Type().Elem())
	protocols.MethodByName("SetUnencryptedHTTP2").Call([]reflect.Value{reflect.ValueOf(true)})
	field.Set(protocols)
	return nil
}

// Makes a request and reads the whole answer.
func do(request *http.Request) (*http.Response, string, traced, error) {
	var seen traced
	trace := &httptrace.ClientTrace{
		GotConn:        func(info httptrace.GotConnInfo) { seen.reused = info.Reused },
		Got100Continue: func() { seen.continued = true },
	}
	answer, err := client.Do(request.WithContext(httptrace.WithClientTrace(context.Background(), trace)))
	if err != nil {
		return nil, "", seen, err
	}
	defer answer.Body.Close()
	if answer.Proto != protocol {
		return nil, "", seen, fmt.Errorf("%s instead of %s", answer.Proto, protocol)
	}
	text, err := io.ReadAll(answer.Body)
	return answer, string(text), seen, err
}

func request(method, path string, body io.Reader) *http.Request {
	request, err := http.NewRequest(method, base+path, body)
	if err != nil {
		panic(err)
	}
	return request
}

func wants(request *http.Request, status int, text string) (*http.Response, traced, error) {
	answer, got, seen, err := do(request)
	if err != nil {
		return nil, seen, err
	}
	if answer.StatusCode != status || got != text {
		return nil, seen, fmt.Errorf("%s %s: %d %q instead of %d %q",
			request.Method, request.URL.Path, answer.StatusCode, got, status, text)
	}
	return answer, seen, nil
}

func keepAlive() error {
	for number := 0; number < 50; number++ {
		path := fmt.Sprintf("/echo/%d?q=%d", number, number)
		_, seen, err := wants(request("GET", path, nil), 200, "GET "+path+" 0")
		if err != nil {
			return err
		}
		if seen.reused != (number > 0) {
			return fmt.Errorf("request %d: reused is %v", number, seen.reused)
		}
	}
	answer, seen, err := wants(request("HEAD", "/echo/head", nil), 200, "")
	if err != nil {
		return err
	}
	if answer.ContentLength != int64(len("HEAD /echo/head 0")) || !seen.reused {
		return fmt.Errorf("HEAD: length %d, reused is %v", answer.ContentLength, seen.reused)
	}
	// What follows a bodiless answer must not be taken for its body.
	if _, seen, err = wants(request("DELETE", "/empty", nil), 204, ""); err != nil || !seen.reused {
		return fmt.Errorf("204: reused is %v, %v", seen.reused, err)
	}
	if _, seen, err = wants(request("GET", "/echo/after", nil), 200, "GET /echo/after 0"); err != nil || !seen.reused {
		return fmt.Errorf("after 204: reused is %v, %v", seen.reused, err)
	}
	return nil
}

func manyGoroutines() error {
	var group sync.WaitGroup
	failed := make(chan error, goroutines)
	var fresh atomic.Int64
	for number := 0; number < goroutines; number++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			for turn := 0; turn < requests; turn++ {
				path := fmt.Sprintf("/echo/%d/%d", number, turn)
				body := strings.Repeat("x", number*turn)
				_, seen, err := wants(request("POST", path, strings.NewReader(body)), 200,
					fmt.Sprintf("POST %s %d", path, len(body)))
				if err != nil {
					failed <- err
					return
				}
				if !seen.reused {
					fresh.Add(1)
				}
			}
		}(number)
	}
	group.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	// Each goroutine may need one of its own; a dial that loses against a freed connection adds a few. HTTP/2 needs
	// none but the one that is there.
	most := int64(2 * goroutines)
	if protocol != "HTTP/1.1" {
		most = 0
	}
	if fresh.Load() > most {
		return fmt.Errorf("%d connections for %d goroutines", fresh.Load(), goroutines)
	}
	return nil
}

func uploads() error {
	body := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	text := fmt.Sprintf("PUT /echo/up %d", len(body))
	if _, _, err := wants(request("PUT", "/echo/up", bytes.NewReader(body)), 200, text); err != nil {
		return err
	}
	// A reader of unknown length goes in chunks.
	_, _, err := wants(request("PUT", "/echo/up", io.MultiReader(bytes.NewReader(body))), 200, text)
	return err
}

func trailers() error {
	request := request("POST", "/chunks", io.MultiReader(strings.NewReader("hello "), strings.NewReader("world")))
	request.Trailer = http.Header{"X-Check": {"right"}}
	answer, _, err := wants(request, 200, "POST /chunks 11")
	if err != nil {
		return err
	}
	if sum := answer.Trailer.Get("X-Sum"); sum != "11 right" {
		return fmt.Errorf("the trailers of the answer are %v", answer.Trailer)
	}
	return nil
}

func expectContinue() error {
	accepted := request("POST", "/echo/expect", strings.NewReader("hello"))
	accepted.Header.Set("Expect", "100-continue")
	_, seen, err := wants(accepted, 200, "POST /echo/expect 5")
	if err != nil {
		return err
	}
	if !seen.continued {
		return errors.New("no interim response came")
	}
	var sent counted
	refused := request("POST", "/early", io.TeeReader(strings.NewReader("hello"), &sent))
	refused.ContentLength = 5
	refused.Header.Set("Expect", "100-continue")
	if _, seen, err = wants(refused, 413, "too large"); err != nil {
		return err
	}
	if seen.continued || sent.bytes.Load() > 0 {
		return errors.New("the body was asked for although it is refused")
	}
	return nil
}

func largeBodies() error {
	failed := make(chan error, 4)
	for number := 0; number < cap(failed); number++ {
		go func() { failed <- largeBody() }()
	}
	for number := 0; number < cap(failed); number++ {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

func largeBody() error {
	answer, text, _, err := do(request("GET", "/large", nil))
	if err != nil {
		return err
	}
	if answer.ContentLength != large || len(text) != large {
		return fmt.Errorf("%d bytes of %d", len(text), answer.ContentLength)
	}
	for at := 0; at < len(text); at++ {
		if text[at] != byte(at%251) {
			return fmt.Errorf("byte %d is %d", at, text[at])
		}
	}
	return nil
}

func earlyResponse() error {
	_, _, err := wants(request("POST", "/early", bytes.NewReader(make([]byte, upload))), 413, "too large")
	if err != nil {
		return err
	}
	// Whatever became of that connection, the next request is served.
	_, _, err = wants(request("GET", "/echo/last", nil), 200, "GET /echo/last 0")
	return err
}

// Counts what is written to it.
type counted struct {
	bytes atomic.Int64
}

func (c *counted) Write(bytes []byte) (int, error) {
	c.bytes.Add(int64(len(bytes)))
	return len(bytes), nil
}
