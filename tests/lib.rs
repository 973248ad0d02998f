//! Harness for the black-box tests.
