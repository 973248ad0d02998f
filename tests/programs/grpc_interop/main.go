// The server of gRPC's interoperability tests, grpc-go's own, on a loopback port that the kernel chooses. With two arguments, a
// certificate and its key, it is reached through TLS alone.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
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
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	fmt.Fprintln(os.Stderr, "listens on", listener.Addr())
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}
