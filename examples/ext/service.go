// A service for the filter `ext`, with Go's standard library: PORT=9100 go run service.go
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// Question is what the proxy asks; see docs/guide/ext.md for all of it. A value that is no UTF-8 is an object.
type Question struct {
	Path   string   `json:"path"`
	Fields [][2]any `json:"fields"`
	Body   []byte   `json:"body_base64"`
}

// Answer is what becomes of the request.
type Answer struct {
	Decision     string            `json:"decision"`
	SetFields    map[string]string `json:"set_fields,omitempty"`
	RemoveFields []string          `json:"remove_fields,omitempty"`
	Path         string            `json:"path,omitempty"`
	Status       int               `json:"status,omitempty"`
	Fields       map[string]string `json:"fields,omitempty"`
	Body         string            `json:"body,omitempty"`
	Reason       string            `json:"reason,omitempty"`
}

func decide(question Question) Answer {
	var key any
	for _, field := range question.Fields {
		if name, ok := field[0].(string); ok && strings.EqualFold(name, "X-Api-Key") {
			key = field[1]
		}
	}
	if key != "secret" {
		return Answer{Decision: "respond", Status: 401, Fields: map[string]string{"X-Reason": "no key"}, Body: "a key is needed\n"}
	}
	if bytes.Contains(question.Body, []byte("attack")) {
		return Answer{Decision: "respond", Status: 403, Body: "not this\n", Reason: "the body has an attack"}
	}
	answer := Answer{Decision: "continue", SetFields: map[string]string{"X-User": "ada"}, RemoveFields: []string{"X-Api-Key"}}
	if rest, ok := strings.CutPrefix(question.Path, "/old/"); ok {
		answer.Path = "/new/" + rest
	}
	return answer
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "9100"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var question Question
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(decide(question))
	})
	panic(http.Serve(listener, nil))
}
