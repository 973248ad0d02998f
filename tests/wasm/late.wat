;; Asks the service `judge` three times when a response comes, each time once the answer before is there. Then it says in
;; `x-judged` how many there were, and lets the response go.
(module
  (import "env" "proxy_http_call"
    (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_add_header_map_value" (func $add (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_continue_stream" (func $continue (param i32) (result i32)))
  (import "env" "proxy_set_effective_context" (func $context (param i32) (result i32)))
  (memory (export "memory") 1)
  (global $asks (mut i32) (i32.const 0))
  (global $left (mut i32) (i32.const 0))
  (global $good (mut i32) (i32.const 0))
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 8192))
  (data (i32.const 16) "judge")
  (data (i32.const 32) "x-judged")
  ;; Three fields: ":method" "GET", ":path" "/judge", ":authority" "".
  (data (i32.const 96)
    "\03\00\00\00\07\00\00\00\03\00\00\00\05\00\00\00\06\00\00\00\0a\00\00\00\00\00\00\00"
    ":method\00GET\00:path\00/judge\00:authority\00\00")
  (func $ask (result i32)
    (call $call
      (i32.const 16) (i32.const 5) (i32.const 96) (i32.const 65)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1000) (i32.const 4096)))
  (func (export "proxy_on_response_headers") (param $context i32) (param i32 i32) (result i32)
    (global.set $asks (local.get $context))
    (global.set $left (i32.const 3))
    (global.set $good (i32.const 0))
    (if (call $ask) (then (unreachable)))
    (i32.const 1))
  (func (export "proxy_on_http_call_response") (param i32 i32) (param $fields i32) (param i32 i32)
    (drop (call $context (global.get $asks)))
    (if (local.get $fields) (then (global.set $good (i32.add (global.get $good) (i32.const 1)))))
    (global.set $left (i32.sub (global.get $left) (i32.const 1)))
    (if (global.get $left)
      (then (if (call $ask) (then (unreachable))))
      (else
        (i32.store8 (i32.const 80) (i32.add (i32.const 48) (global.get $good)))
        (if (call $add (i32.const 2) (i32.const 32) (i32.const 8) (i32.const 80) (i32.const 1))
          (then (unreachable)))
        (if (call $continue (i32.const 1)) (then (unreachable)))))))
