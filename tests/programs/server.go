// The service of tests/scenario/runtimes.rs, as Go's net/http serves it. It says its port on standard error.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
)

// Bytes of the body under /large.
const large = 10_000_000

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	body := make([]byte, large)
	for at := range body {
		body[at] = byte(at % 251)
	}
	http.HandleFunc("/echo/", echo)
	http.HandleFunc("/chunks", chunks)
	http.HandleFunc("/empty", func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(204) })
	http.HandleFunc("/early", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Connection", "close")
		answer.WriteHeader(413)
		io.WriteString(answer, "too large")
	})
	http.HandleFunc("/large", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Length", strconv.Itoa(large))
		answer.Write(body)
	})
	fmt.Fprintf(os.Stderr, "port %d\n", listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, nil))
}

func echo(answer http.ResponseWriter, request *http.Request) {
	bytes, err := io.Copy(io.Discard, request.Body)
	if err != nil {
		return
	}
	// A short answer gets its Content-Length by itself, that to HEAD too.
	fmt.Fprintf(answer, "%s %s %d", request.Method, request.RequestURI, bytes)
}

func chunks(answer http.ResponseWriter, request *http.Request) {
	answer.Header().Set("Trailer", "X-Sum")
	bytes, err := io.Copy(io.Discard, request.Body)
	if err != nil {
		return
	}
	fmt.Fprintf(answer, "%s %s ", request.Method, request.RequestURI)
	answer.(http.Flusher).Flush()
	fmt.Fprint(answer, bytes)
	answer.Header().Set("X-Sum", fmt.Sprintf("%d %s", bytes, request.Trailer.Get("X-Check")))
}
