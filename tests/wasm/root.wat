;; Asks the service `judge` as it starts. Says in `x-root` of requests how many answers there were, and how many calls
;; without one.
(module
  (import "env" "proxy_http_call"
    (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_add_header_map_value" (func $add (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_tick_period_milliseconds" (func $tick (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 8192))
  (data (i32.const 16) "judge")
  (data (i32.const 32) "x-root")
  (data (i32.const 48) "00")
  ;; Three fields: ":method" "GET", ":path" "/judge", ":authority" "judge.test".
  (data (i32.const 96)
    "\03\00\00\00\07\00\00\00\03\00\00\00\05\00\00\00\06\00\00\00\0a\00\00\00\0a\00\00\00"
    ":method\00GET\00:path\00/judge\00:authority\00judge.test\00")
  (func (export "_initialize") (drop (call $tick (i32.const 1))))
  (func (export "proxy_on_configure") (param i32 i32) (result i32)
    (if (call $call
        (i32.const 16) (i32.const 5) (i32.const 96) (i32.const 75)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1000) (i32.const 4096))
      (then (unreachable)))
    (i32.const 1))
  (func (export "proxy_on_http_call_response") (param i32 i32) (param $fields i32) (param i32 i32)
    (local $at i32)
    (local.set $at (select (i32.const 48) (i32.const 49) (local.get $fields)))
    (i32.store8 (local.get $at) (i32.add (i32.load8_u (local.get $at)) (i32.const 1))))
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
    (drop (call $add (i32.const 0) (i32.const 32) (i32.const 6) (i32.const 48) (i32.const 2)))
    (i32.const 0)))
