;; Adds `X-Wasm: hello` to requests, and `X-Wasm-Seen` to responses.
(module
  (import "env" "proxy_add_header_map_value"
    (func $add (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "x-wasm")
  (data (i32.const 32) "hello")
  (data (i32.const 48) "x-wasm-seen")
  (func (export "proxy_abi_version_0_2_1"))
  ;; The host asks for room where it hands something over; here it never does.
  (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 0))
  ;; context, number of fields, whether there is no body; 0: the exchange goes on.
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
    (drop (call $add (i32.const 0) (i32.const 16) (i32.const 6) (i32.const 32) (i32.const 5)))
    (i32.const 0))
  (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
    (drop (call $add (i32.const 2) (i32.const 48) (i32.const 11) (i32.const 32) (i32.const 5)))
    (i32.const 0)))
