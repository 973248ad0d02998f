// A server that speaks gRPC and nothing else, with grpc-go's own `grpc.health.v1`: the server as a whole and the service `shop.Cart`
// serve. USR1: neither does; USR2: both do again. With two arguments, a certificate and its key, it is reached through TLS alone.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var options []grpc.ServerOption
	if len(os.Args) == 3 {
		pair, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
		if err != nil {
			panic(err)
		}
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	}
	server, said := grpc.NewServer(options...), health.NewServer()
	said.SetServingStatus("shop.Cart", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, said)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for told := range signals {
			if told == syscall.SIGUSR1 {
				said.Shutdown()
			} else {
				said.Resume()
			}
		}
	}()
	fmt.Fprintln(os.Stderr, "listens on", listener.Addr())
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}
