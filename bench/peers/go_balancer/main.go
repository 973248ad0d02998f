// A small load balancer in Go, as such programs are commonly written: net/http's reverse proxy before a pool of servers.
//
// Not part of the product: a contestant of `cargo xtask bench ab`, after the design of published work (GoLoadBalance) and
// without its mistakes. Round robin over the servers that are up, one client with a pool of connections for each of
// them, a check of each in the background that takes a server out after some failures and back in after one success.
//
// usage: go_balancer LISTEN BACKEND…, all of them as address:port
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Time between two checks of a server, and for one of them.
	checkInterval = 5 * time.Second
	checkTimeout  = 2 * time.Second
	// Checks that fail one after another before a server is taken out.
	checkRetries = 3
	// Idle connections that are kept to each server: enough for thousands of clients before a few of them.
	keptConnections = 4096
	// Size of the buffers that bodies are copied with.
	copyBuffer = 32 << 10
)

// A server with a client of its own.
type server struct {
	address  string
	proxy    *httputil.ReverseProxy
	failures int
}

// The servers that are up. A request reads the list and takes the next place: no lock on its path.
type pool struct {
	alive atomic.Pointer[[]*server]
	next  atomic.Uint64
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: go_balancer LISTEN BACKEND…")
		os.Exit(2)
	}
	var servers []*server
	buffers := &bufferPool{}
	for _, address := range os.Args[2:] {
		servers = append(servers, newServer(address, buffers))
	}
	balancer := &pool{}
	balancer.alive.Store(&servers)
	go balancer.check(servers)
	log.Fatal(http.ListenAndServe(os.Args[1], balancer))
}

func newServer(address string, buffers httputil.BufferPool) *server {
	target := &url.URL{Scheme: "http", Host: address}
	transport := &http.Transport{
		MaxIdleConns:        0, // no limit
		MaxIdleConnsPerHost: keptConnections,
		IdleConnTimeout:     time.Hour,
		DisableCompression:  true,
	}
	proxy := &httputil.ReverseProxy{
		Transport:  transport,
		BufferPool: buffers,
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.Host = request.In.Host
			// The same fields as every other contestant adds.
			request.SetXForwarded()
			request.Out.Header.Set("Via", "1.1 thalweg")
			request.Out.Header.Set("X-Request-Id", requestID())
		},
	}
	return &server{address: address, proxy: proxy}
}

func (p *pool) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	alive := *p.alive.Load()
	if len(alive) == 0 {
		http.Error(answer, "no server is up", http.StatusServiceUnavailable)
		return
	}
	turn := p.next.Add(1)
	alive[turn%uint64(len(alive))].proxy.ServeHTTP(answer, request)
}

// Checks all servers again and again, and publishes a new list when one goes or comes back.
func (p *pool) check(servers []*server) {
	client := &http.Client{Timeout: checkTimeout}
	for range time.Tick(checkInterval) {
		var alive []*server
		for _, server := range servers {
			if up(client, server.address) {
				server.failures = 0
			} else {
				server.failures++
			}
			if server.failures < checkRetries {
				alive = append(alive, server)
			}
		}
		if len(alive) != len(*p.alive.Load()) {
			log.Printf("%d of %d servers are up", len(alive), len(servers))
		}
		p.alive.Store(&alive)
	}
}

func up(client *http.Client, address string) bool {
	answer, err := client.Get("http://" + address + "/ping")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}

func requestID() string {
	var bytes [16]byte
	rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

// Buffers that go from one body to the next.
type bufferPool struct {
	free sync.Pool
}

func (b *bufferPool) Get() []byte {
	if buffer, ok := b.free.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, copyBuffer)
}

func (b *bufferPool) Put(buffer []byte) {
	b.free.Put(&buffer)
}
