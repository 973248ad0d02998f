//! What is asked of the store.

use super::point::Point;
use super::store::{Gauges, Rings, SeriesStore};
use super::timeline::Timeline;
use crate::registry::OTHER;
use crate::totals::ObjectKind;

/// What series are about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SeriesKind {
    /// The process as a whole: one series with an empty name.
    #[default]
    Process,
    /// One per thing of this kind.
    Of(ObjectKind),
}

/// How far back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Span {
    /// 30 minutes in steps of 10 seconds.
    #[default]
    Short,
    /// 24 hours in steps of 5 minutes.
    Long,
}

/// Which series are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// What about.
    pub kind: SeriesKind,
    /// The one of this name.
    pub name: Option<&'a str>,
    /// Of endpoints, those of this service.
    pub service: Option<&'a str>,
    /// How far back.
    pub span: Span,
    /// How many, the busiest first.
    pub limit: usize,
}

/// Series of one span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesAnswer {
    /// Seconds of a step.
    pub step_s: u64,
    /// When the first step began, in seconds since the Unix epoch.
    pub start: u64,
    /// The busiest first.
    pub series: Vec<SeriesOf>,
    /// Gauges at the end of each step, of the process.
    pub gauges: Vec<Gauges>,
}

/// The series of one object: one value per step, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesOf {
    /// Its name.
    pub name: String,
    /// Of an endpoint, its service.
    pub service: Option<String>,
    /// Exchanges, of an endpoint attempts.
    pub requests: Vec<u64>,
    /// Those that failed.
    pub errors: Vec<u64>,
    /// Bytes of requests.
    pub bytes_in: Vec<u64>,
    /// Bytes of responses.
    pub bytes_out: Vec<u64>,
    /// What half of the exchanges did not exceed, in microseconds; `None` without exchanges.
    pub p50_us: Vec<Option<u64>>,
    /// What 99 of 100 did not exceed.
    pub p99_us: Vec<Option<u64>>,
}

impl SeriesStore {
    /// The series that are wanted, as they are at this moment, in seconds since the Unix epoch. Steps that are not
    /// over are left out. What objects without points of their own have counted is called `_other`.
    pub fn select(&self, wanted: Selection<'_>, unix_s: u64) -> SeriesAnswer {
        let timeline = self.timeline(wanted.span);
        let ages = timeline.complete(unix_s);
        let start = ages.clone().next().map_or(0, |age| timeline.began(age));
        let read = |(name, service, rings): (&str, Option<&str>, &Rings)| {
            let points = points(rings, wanted.span);
            let points = ages.clone().map(|age| &points[timeline.place(age)]);
            SeriesOf::of((name, service), points)
        };
        let found = match wanted.kind {
            SeriesKind::Process => vec![("", None, &self.process)],
            SeriesKind::Of(kind) => self.busiest(kind, &wanted, unix_s),
        };
        let gauges = match (wanted.kind, wanted.span) {
            (SeriesKind::Of(_), _) => &[][..],
            (SeriesKind::Process, Span::Short) => &self.short_gauges,
            (SeriesKind::Process, Span::Long) => &self.long_gauges,
        };
        let gauges = ages.clone().filter_map(|age| gauges.get(timeline.place(age)).copied()).collect();
        SeriesAnswer { step_s: timeline.step_s, start, series: found.into_iter().map(read).collect(), gauges }
    }

    fn timeline(&self, span: Span) -> &Timeline {
        match span {
            Span::Short => &self.short,
            Span::Long => &self.long,
        }
    }

    /// Those of a kind that fit, the busiest of the span first; without requests in it only when asked for by name.
    fn busiest(
        &self,
        kind: ObjectKind,
        wanted: &Selection<'_>,
        unix_s: u64,
    ) -> Vec<(&str, Option<&str>, &Rings)> {
        let timeline = self.timeline(wanted.span);
        let ages = timeline.complete(unix_s);
        let of_kind = self.objects.iter().filter(|tracked| tracked.kind == kind).map(|tracked| {
            let service = (kind == ObjectKind::Endpoint).then_some(&*tracked.service);
            (&*tracked.name, service, &tracked.rings)
        });
        let other = wanted.service.is_none().then_some((OTHER, None, &self.others[kind as usize]));
        let fits = |(name, service, _): &(&str, Option<&str>, &Rings)| {
            wanted.name.is_none_or(|wanted| wanted == *name)
                && wanted.service.is_none_or(|wanted| Some(wanted) == *service)
        };
        let busy = |rings: &Rings| -> u64 {
            let points = points(rings, wanted.span);
            ages.clone().map(|age| u64::from(points[timeline.place(age)].requests)).sum()
        };
        let ranked = of_kind.chain(other).filter(fits).map(|found| (busy(found.2), found));
        let mut found: Vec<_> = ranked.collect();
        found.retain(|(requests, _)| *requests > 0 || wanted.name.is_some());
        found.sort_by(|(a, one), (b, another)| {
            b.cmp(a).then_with(|| (one.0, one.1).cmp(&(another.0, another.1)))
        });
        found.into_iter().map(|(_, found)| found).take(wanted.limit).collect()
    }
}

fn points(rings: &Rings, span: Span) -> &[Point] {
    match span {
        Span::Short => &rings.short,
        Span::Long => &rings.long,
    }
}

impl SeriesOf {
    fn of<'a>((name, service): (&str, Option<&str>), points: impl Iterator<Item = &'a Point>) -> Self {
        let mut series =
            Self { name: name.to_owned(), service: service.map(str::to_owned), ..Self::default() };
        for point in points {
            series.requests.push(u64::from(point.requests));
            series.errors.push(u64::from(point.errors));
            series.bytes_in.push(point.bytes_in as u64);
            series.bytes_out.push(point.bytes_out as u64);
            series.p50_us.push(point.quantile_us(0.5));
            series.p99_us.push(point.quantile_us(0.99));
        }
        series
    }
}
