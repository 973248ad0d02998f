//! Certificates that are never offered, because another one of the same kind answers for all their hosts.

use super::{Subject, in_certificates};
use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use std::collections::HashMap;
