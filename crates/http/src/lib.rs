//! Placeholder until the first module lands.
#![forbid(unsafe_code)]
