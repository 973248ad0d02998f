//! Numbers of the ABI (proxy-wasm/spec, abi-versions/v0.2.1) and of WASI preview 1.

/// `proxy_status_t`.
pub(crate) mod status {
    pub(crate) const OK: i32 = 0;
    pub(crate) const NOT_FOUND: i32 = 1;
    pub(crate) const BAD_ARGUMENT: i32 = 2;
    pub(crate) const INVALID_MEMORY_ACCESS: i32 = 6;
    pub(crate) const CAS_MISMATCH: i32 = 8;
    pub(crate) const INTERNAL_FAILURE: i32 = 10;
    pub(crate) const UNIMPLEMENTED: i32 = 12;
}

/// `proxy_map_type_t`.
pub(crate) mod map {
    pub(crate) const REQUEST_HEADERS: i32 = 0;
    pub(crate) const RESPONSE_HEADERS: i32 = 2;
    pub(crate) const CALL_RESPONSE_HEADERS: i32 = 6;
    /// The highest number of a map.
    pub(crate) const LAST: i32 = 7;
}

/// `proxy_buffer_type_t`.
pub(crate) mod buffer {
    pub(crate) const REQUEST_BODY: i32 = 0;
    pub(crate) const RESPONSE_BODY: i32 = 1;
    pub(crate) const CALL_RESPONSE_BODY: i32 = 4;
    pub(crate) const VM_CONFIGURATION: i32 = 6;
    pub(crate) const PLUGIN_CONFIGURATION: i32 = 7;
    /// The highest number of a buffer.
    pub(crate) const LAST: i32 = 8;
}

/// `proxy_stream_type_t`.
pub(crate) mod stream_type {
    pub(crate) const REQUEST: i32 = 0;
    pub(crate) const RESPONSE: i32 = 1;
    /// The highest number of a kind of stream.
    pub(crate) const LAST: i32 = 3;
}

/// `proxy_action_t`: the exchange goes on.
pub(crate) const CONTINUE: i32 = 0;

/// `wasi_errno_t`.
pub(crate) mod errno {
    pub(crate) const SUCCESS: i32 = 0;
    pub(crate) const BADF: i32 = 8;
    pub(crate) const FAULT: i32 = 21;
    pub(crate) const INVAL: i32 = 28;
    pub(crate) const NOSYS: i32 = 52;
    pub(crate) const NOTSUP: i32 = 58;
}

/// Exports by which a module says which ABI it was built for.
pub(crate) const VERSIONS: [&str; 3] =
    ["proxy_abi_version_0_2_1", "proxy_abi_version_0_2_0", "proxy_abi_version_0_1_0"];
