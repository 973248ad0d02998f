//! The store as bytes, so that series outlast the process.
//!
//! Object by object, so that whoever writes holds the store's lock for one of them only; each point with the number of
//! its step, so that a reading between two objects harms nothing. Blank points are left out. A checksum ends it: what
//! does not fit is [`DamagedSeries`], and the series begin empty.
//!
//! The largest file that can be written is about 70 MB (2,000 objects of which every bucket of every step has large
//! counts); one of 1,000 routes with ordinary traffic has 10 to 15 MB, one of ten routes 100 KB.

use std::fmt;
use std::io::{self, Read};

use super::point::{Point, Small};
use super::store::{Gauges, Rings, SeriesStore};
use super::{LONG_STEPS, NAME, OBJECTS, STEPS};
use crate::meter::BUCKETS;
use crate::totals::{Object, ObjectKind, Totals};

/// What the file begins with. The number is the version of what follows.
const MAGIC: &[u8; 16] = b"thalweg series 1";
/// Kinds of records, after those of [`ObjectKind`].
const OTHER_OF: u8 = 0x10;
const PROCESS: u8 = 0x20;
const END: u8 = 0x30;

/// Bytes that are no series, or not all of them.
#[derive(Debug)]
pub struct DamagedSeries(String);

impl fmt::Display for DamagedSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DamagedSeries {}

fn damaged(what: &str) -> DamagedSeries {
    DamagedSeries(what.to_owned())
}

/// FNV-1a: it finds what a disk has damaged, and is not asked for more.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl SeriesStore {
    /// Parts that [`Self::encode`] writes.
    pub fn parts(&self) -> usize {
        2 + ObjectKind::ALL.len() + self.objects.len()
    }

    /// Appends part number `at`; those past the end are nothing. The last thing in a file is [`SeriesStore::end`].
    pub fn encode(&self, at: usize, out: &mut Vec<u8>) {
        let kinds = ObjectKind::ALL.len();
        match at {
            0 => {
                out.extend_from_slice(MAGIC);
                [self.short.head, self.long.head].iter().for_each(|head| number(out, *head));
                [self.short.filled, self.long.filled].iter().for_each(|filled| number(out, *filled as u64));
            }
            1 => {
                out.push(PROCESS);
                self.encode_rings(&self.process, out);
                self.encode_gauges(out);
            }
            _ if at < 2 + kinds => {
                out.push(OTHER_OF + (at - 2) as u8);
                self.encode_rings(&self.others[at - 2], out);
            }
            _ => {
                let Some(tracked) = self.objects.get(at - 2 - kinds) else { return };
                out.push(tracked.kind as u8);
                text(out, &tracked.service);
                text(out, &tracked.name);
                self.encode_rings(&tracked.rings, out);
            }
        }
    }

    /// Appends what ends a file.
    pub fn end(checksum: &mut Checksum, out: &mut Vec<u8>) {
        out.push(END);
        checksum.add(&[END]);
        out.extend_from_slice(&checksum.0.to_le_bytes());
    }

    fn encode_rings(&self, rings: &Rings, out: &mut Vec<u8>) {
        for (timeline, points) in [(&self.short, &rings.short), (&self.long, &rings.long)] {
            let ages = (0..timeline.filled).map(|age| (age, &points[timeline.place(age)]));
            let counted = ages.filter(|(_, point)| !point.is_blank()).collect::<Vec<_>>();
            number(out, counted.len() as u64);
            for (age, point) in counted {
                number(out, timeline.head.saturating_sub(age as u64));
                encode_point(point, out);
            }
        }
    }

    fn encode_gauges(&self, out: &mut Vec<u8>) {
        for (timeline, gauges) in [(&self.short, &self.short_gauges), (&self.long, &self.long_gauges)] {
            number(out, timeline.filled as u64);
            for age in 0..timeline.filled {
                let gauges = &gauges[timeline.place(age)];
                number(out, timeline.head.saturating_sub(age as u64));
                number(out, u64::from(gauges.connections));
                number(out, u64::from(gauges.in_flight));
                number(out, u64::from(gauges.saturation.to_bits()));
            }
        }
    }

    /// The store that these bytes are, at this moment, in milliseconds since the Unix epoch. Steps that lie in the
    /// future, because the clock has gone back meanwhile, are moved so that the newest one is now.
    ///
    /// # Errors
    /// When the bytes are damaged or of another version.
    pub fn decode(bytes: &[u8], unix_ms: u64) -> Result<Self, DamagedSeries> {
        let (content, end) = bytes.split_at_checked(bytes.len().saturating_sub(8)).unwrap_or((bytes, &[]));
        let mut checksum = Checksum::default();
        checksum.add(content);
        if end != checksum.0.to_le_bytes() {
            return Err(damaged("its checksum is wrong"));
        }
        let content = content.strip_prefix(MAGIC).ok_or_else(|| damaged("it is of another version"))?;
        let mut decoder = Decoder { bytes: content, store: Self::default(), shifts: (0, 0) };
        decoder.read(unix_ms)?;
        Ok(decoder.store)
    }
}

/// Writes the parts of a store one after the other, each under the lock that `part` takes: it appends part number so
/// and so, and says how many there are.
///
/// # Errors
/// What `out` says.
pub fn write_series(
    out: &mut impl io::Write,
    mut part: impl FnMut(usize, &mut Vec<u8>) -> usize,
) -> io::Result<()> {
    let (mut buffer, mut checksum, mut at) = (Vec::new(), Checksum::default(), 0);
    loop {
        buffer.clear();
        let parts = part(at, &mut buffer);
        checksum.add(&buffer);
        at += 1;
        if at >= parts {
            SeriesStore::end(&mut checksum, &mut buffer);
            return out.write_all(&buffer);
        }
        out.write_all(&buffer)?;
    }
}

fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn encode_point(point: &Point, out: &mut Vec<u8>) {
    number(out, u64::from(point.requests));
    number(out, u64::from(point.errors));
    number(out, u64::from(point.bytes_in.to_bits()));
    number(out, u64::from(point.bytes_out.to_bits()));
    let present = point.buckets.iter().enumerate().filter(|(_, bucket)| bucket.0 > 0);
    number(out, present.clone().map(|(at, _)| 1u64 << at).sum());
    present.for_each(|(_, bucket)| number(out, u64::from(bucket.0)));
}

struct Decoder<'a> {
    bytes: &'a [u8],
    store: SeriesStore,
    /// By how much steps are moved back.
    shifts: (u64, u64),
}

impl Decoder<'_> {
    fn read(&mut self, unix_ms: u64) -> Result<(), DamagedSeries> {
        let heads = (self.number()?, self.number()?);
        let filled = (self.at_most(STEPS)?, self.at_most(LONG_STEPS)?);
        let store = &mut self.store;
        let now = (store.short.step_of(unix_ms), store.long.step_of(unix_ms));
        self.shifts = (heads.0.saturating_sub(now.0), heads.1.saturating_sub(now.1));
        if filled.0 > 0 && filled.1 > 0 {
            store.turn_to(heads.0 - self.shifts.0, heads.1 - self.shifts.1);
            (store.short.filled, store.long.filled) = filled;
        }
        loop {
            let kind = self.byte()?;
            match kind {
                END if self.bytes.is_empty() => return Ok(()),
                PROCESS => {
                    let mut rings = Rings::new();
                    self.rings(&mut rings)?;
                    self.store.process = rings;
                    self.gauges()?;
                }
                _ if usize::from(kind.wrapping_sub(OTHER_OF)) < ObjectKind::ALL.len() => {
                    let mut rings = Rings::new();
                    self.rings(&mut rings)?;
                    self.store.others[usize::from(kind - OTHER_OF)] = rings;
                }
                _ => self.object(kind)?,
            }
        }
    }

    fn object(&mut self, kind: u8) -> Result<(), DamagedSeries> {
        let kind = ObjectKind::ALL.get(usize::from(kind)).copied();
        let kind = kind.ok_or_else(|| damaged("it has a record of an unknown kind"))?;
        let (service, name) = (self.text()?, self.text()?);
        let object = Object { kind, service: &service, name: &name };
        let hash = self.store.hash(object);
        let mut rings = Rings::new();
        let busy = self.rings(&mut rings)?;
        // An object may stand in it twice where one was forgotten while it was written.
        if self.store.objects.len() < OBJECTS
            && !self.store.objects.iter().any(|known| known.object() == object)
        {
            self.store.track(object, hash, (Totals::default(), Totals::default()));
            let recent = (0..6).map(|age| f64::from(rings.short[self.store.short.place(age)].requests));
            let score = recent.sum();
            if let Some(tracked) = self.store.objects.last_mut() {
                (tracked.rings, tracked.score, tracked.busy) = (rings, score, busy);
            }
        }
        Ok(())
    }

    /// Reads points; gives the last short step in which there is one.
    fn rings(&mut self, rings: &mut Rings) -> Result<u64, DamagedSeries> {
        let mut busy = 0;
        for _ in 0..self.at_most(STEPS)? {
            let step = self.number()?.saturating_sub(self.shifts.0);
            let point = self.point()?;
            busy = busy.max(step);
            let age = self.store.short.head.checked_sub(step).and_then(|age| usize::try_from(age).ok());
            if let Some(age) = age.filter(|age| *age < STEPS) {
                rings.short[self.store.short.place(age)] = point;
            }
        }
        for _ in 0..self.at_most(LONG_STEPS)? {
            let step = self.number()?.saturating_sub(self.shifts.1);
            let point = self.point()?;
            busy = busy.max(step * (super::LONG_STEP / super::STEP));
            let age = self.store.long.head.checked_sub(step).and_then(|age| usize::try_from(age).ok());
            if let Some(age) = age.filter(|age| *age < LONG_STEPS) {
                rings.long[self.store.long.place(age)] = point;
            }
        }
        Ok(busy.min(self.store.short.head))
    }

    fn gauges(&mut self) -> Result<(), DamagedSeries> {
        for is_long in [false, true] {
            for _ in 0..self.at_most(if is_long { LONG_STEPS } else { STEPS })? {
                let shift = if is_long { self.shifts.1 } else { self.shifts.0 };
                let step = self.number()?.saturating_sub(shift);
                let gauges = Gauges {
                    connections: self.small()?,
                    in_flight: self.small()?,
                    saturation: self.float()?,
                };
                let store = &mut self.store;
                let (timeline, places) = match is_long {
                    true => (&store.long, &mut store.long_gauges),
                    false => (&store.short, &mut store.short_gauges),
                };
                let age = timeline.head.checked_sub(step).and_then(|age| usize::try_from(age).ok());
                if let Some(age) = age.filter(|age| *age < timeline.places) {
                    places[timeline.place(age)] = gauges;
                }
            }
        }
        Ok(())
    }

    fn point(&mut self) -> Result<Point, DamagedSeries> {
        let mut point = Point {
            requests: self.small()?,
            errors: self.small()?,
            bytes_in: self.float()?,
            bytes_out: self.float()?,
            ..Point::default()
        };
        let present = self.at_most((1 << BUCKETS) - 1)?;
        for (at, bucket) in point.buckets.iter_mut().enumerate().filter(|(at, _)| present >> at & 1 == 1) {
            let code = self.number()?;
            *bucket = Small(u16::try_from(code).map_err(|_| damaged(&format!("bucket {at} is too large")))?);
        }
        Ok(point)
    }

    fn byte(&mut self) -> Result<u8, DamagedSeries> {
        let mut byte = [0];
        self.bytes.read_exact(&mut byte).map_err(|_| damaged("it ends too early"))?;
        Ok(byte[0])
    }

    fn number(&mut self) -> Result<u64, DamagedSeries> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged("it has a number that is too large"))
    }

    fn small(&mut self) -> Result<u32, DamagedSeries> {
        u32::try_from(self.number()?).map_err(|_| damaged("it has a number that is too large"))
    }

    fn float(&mut self) -> Result<f32, DamagedSeries> {
        let value = f32::from_bits(self.small()?);
        let is_count = value.is_finite() && value >= 0.0;
        is_count.then_some(value).ok_or_else(|| damaged("it has a count that is none"))
    }

    fn at_most(&mut self, most: usize) -> Result<usize, DamagedSeries> {
        let number = usize::try_from(self.number()?).ok().filter(|number| *number <= most);
        number.ok_or_else(|| damaged("it has a number that is too large"))
    }

    fn text(&mut self) -> Result<String, DamagedSeries> {
        let length = self.at_most(NAME)?;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or_else(|| damaged("it ends too early"))?;
        self.bytes = rest;
        String::from_utf8(text.to_vec()).map_err(|_| damaged("it has a name that is none"))
    }
}
