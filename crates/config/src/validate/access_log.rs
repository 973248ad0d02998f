//! `access_log:`

use super::secret::Secrets;
use super::{bounded, duration};
use crate::diagnose::{Class, Problems, SpecError};
use crate::settings::{AccessLog, LogFormat, LogTarget};
use crate::spec::{AccessLogSpec, LogFormatSpec, LogRotateSpec, LogSampleSpec, Spanned, SyslogSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_observe::{Rotation, Sample, Syslog, SyslogReceiver, TextFormat};

/// Smallest and largest `rotate.size`, in bytes.
const SIZE_MIN: u64 = 64 << 10;
const SIZE_MAX: u64 = 1 << 40;
/// Shortest and longest `rotate.every`.
const EVERY_MIN: Duration = Duration::from_secs(60);
const EVERY_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Most files that are kept, and how many are where nothing is written.
const KEEP_MAX: u64 = 1000;
const KEEP: u64 = 7;
/// Shortest and longest `sample.always.slower_than`.
const SLOW_MIN: Duration = Duration::from_millis(1);
const SLOW_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The port of syslog, where none is written.
const PORT: u16 = 514;
/// Characters of `syslog.tag`.
const TAG: usize = 48;

pub(super) fn access_log(
    spec: &AccessLogSpec,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<AccessLog> {
    let format = match &spec.format {
        Some(LogFormatSpec::Off) => None,
        Some(LogFormatSpec::Combined) => Some(LogFormat::Combined),
        Some(LogFormatSpec::Json) | None => Some(LogFormat::Json),
        Some(LogFormatSpec::Text(text)) => match TextFormat::parse(&text.value) {
            Ok(format) => Some(LogFormat::Text(Arc::new(format))),
            Err(message) => {
                problems.push(SpecError::value(text.span, "text", message));
                None
            }
        },
    };
    let target = match (&spec.syslog, spec.path.as_ref().map(|path| path.value.as_str())) {
        (Some(syslog), None) => LogTarget::Syslog(self::syslog(&syslog.value, secrets, problems)?),
        (Some(syslog), Some(_)) => {
            let message = "a log goes to `path` or to `syslog`, not to both";
            problems.push(SpecError::value(syslog.span, "syslog", message).help("remove one of the two"));
            return None;
        }
        (None, None | Some("stdout")) => LogTarget::Stdout,
        (None, Some("stderr")) => LogTarget::Stderr,
        (None, Some(_)) => {
            LogTarget::File(spec.path.as_ref().and_then(|path| file(path, secrets, problems))?)
        }
    };
    let rotation = spec.rotate.as_ref().and_then(|rotate| rotation(rotate, &target, problems));
    let sample = spec.sample.as_ref().and_then(|written| sample(&written.value, problems));
    Some(AccessLog { format: format?, target, rotation, sample })
}

/// A file to write to.
pub(super) fn file(
    path: &Spanned<String>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<PathBuf> {
    if path.value.is_empty() {
        problems.push(SpecError::value(path.span, "path", "the path is empty"));
        return None;
    }
    Some(secrets.path(path))
}

fn syslog(spec: &SyslogSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<Syslog> {
    let tag = spec.tag.as_ref().map_or("thalweg", |tag| tag.value.as_str());
    if let Some(written) = &spec.tag
        && !((1..=TAG).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        let message = format!("a tag has 1 to {TAG} printable characters without spaces");
        problems.push(SpecError::value(written.span, "tag", message));
        return None;
    }
    let to = match receiver(&spec.address.value) {
        Some(SyslogReceiver::Unix(path)) => SyslogReceiver::Unix(match path.to_str() {
            Some(text) => secrets.path(&Spanned::new(spec.address.span, text.to_owned())),
            None => path,
        }),
        Some(to) => to,
        None => {
            let message = format!("`{}` is no receiver of syslog", spec.address.value);
            let error = SpecError::value(spec.address.span, "address", message);
            problems.push(error.help("write `unix:/dev/log`, `udp://HOST:PORT` or `tcp://HOST:PORT`"));
            return None;
        }
    };
    Some(Syslog { to, facility: spec.facility.unwrap_or_default() as u8, tag: tag.to_owned() })
}

fn receiver(text: &str) -> Option<SyslogReceiver> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Path::new(path).is_absolute().then(|| SyslogReceiver::Unix(path.into()));
    }
    let (scheme, place) = text.split_once("://")?;
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => place.rsplit_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_named = place.starts_with('[') || host.bytes().all(is_host);
    let port = port.map_or(Some(PORT), |port| port.parse::<u16>().ok().filter(|port| *port > 0))?;
    if host.is_empty() || host.len() > 253 || !is_named {
        return None;
    }
    match scheme {
        "udp" => Some(SyslogReceiver::Udp(host.into(), port)),
        "tcp" => Some(SyslogReceiver::Tcp(host.into(), port)),
        _ => None,
    }
}

fn rotation(
    written: &Spanned<LogRotateSpec>,
    target: &LogTarget,
    problems: &mut Problems,
) -> Option<Rotation> {
    let LogRotateSpec { size, every, keep } = &written.value;
    if !matches!(target, LogTarget::File(_)) {
        let message = "only a file moves on";
        problems.push(SpecError::value(written.span, "rotate", message).help("write a file as `path`"));
        return None;
    }
    if size.is_none() && every.is_none() {
        let error = SpecError::value(written.span, "rotate", "nothing says when the file moves on");
        problems.push(error.help("write `size`, as `100MiB`, or `every`, as `1d`"));
        return None;
    }
    if let Some(size) = size.as_ref().filter(|size| !(SIZE_MIN..=SIZE_MAX).contains(&size.value.0)) {
        let message = "the size must be from 64KiB to 1TiB";
        problems.push(SpecError::new(Class::Invalid, size.span, message));
    }
    let keep = keep.as_ref().map_or(Some(KEEP), |keep| bounded(keep, 1, KEEP_MAX, problems))?;
    Some(Rotation {
        size: size.as_ref().map(|size| size.value.0),
        every: duration(every.as_ref(), EVERY_MIN, EVERY_MAX, problems),
        keep: u32::try_from(keep).unwrap_or(u32::MAX),
    })
}

fn sample(spec: &LogSampleSpec, problems: &mut Problems) -> Option<Sample> {
    if spec.share.value.0 > 100 {
        let message = "the share must be from 0% to 100%";
        problems.push(SpecError::new(Class::Invalid, spec.share.span, message));
        return None;
    }
    let statuses = match &spec.always.status {
        None => vec![500..=599],
        Some(written) => written.items.iter().map(|item| item.value.0.clone()).collect(),
    };
    let slower_than = duration(spec.always.slower_than.as_ref(), SLOW_MIN, SLOW_MAX, problems);
    Some(Sample { share: spec.share.value.0 * 10, statuses, slower_than })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_read_as_they_are_shown() {
        for text in ["unix:/dev/log", "udp://10.0.0.5:5140", "tcp://log.example.com:601", "udp://[::1]:514"] {
            assert_eq!(receiver(text).unwrap().to_string(), text);
        }
        assert_eq!(receiver("udp://logs").unwrap().to_string(), "udp://logs:514");
        for wrong in [
            "",
            "/dev/log",
            "unix:log",
            "udp://",
            "udp://:514",
            "tcp://a:0",
            "tcp://a:99999",
            "http://a:1",
            "udp://a b:1",
            "udp://[1.2.3.4]:1",
            "tcp://u@a:1",
            "tcp://a:1/x",
            "udp://::1:514",
        ] {
            assert_eq!(receiver(wrong), None, "{wrong}");
        }
    }
}
