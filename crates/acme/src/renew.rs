//! One look at one name: is its certificate there, is it due, and if so the order.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use instant_acme::{CertificateIdentifier, Error};
use rustls::pki_types::CertificateDer;
use thalweg_tls::AcmePolicy;
use thalweg_tls::Certificate;

use crate::account::Authority;
use crate::challenge::Stage;
use crate::failure::Failure;
use crate::order::{Ordering, Paper};
use crate::renewal::{Validity, Window, chance_of, due};
use crate::storage::Drawer;

/// The bounds of when an authority is asked again for its window, whatever it says (RFC 9773 §4.3).
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 60 * 60));
/// When it is asked again where it did not say.
const ASK_LATER: Duration = Duration::from_secs(6 * 60 * 60);

/// When the authority would like it, and until when that holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) window: Option<Window>,
    pub(crate) until: SystemTime,
}

/// What is looked at.
pub(crate) struct Task {
    pub(crate) authority: Arc<Authority>,
    pub(crate) policy: Arc<AcmePolicy>,
    pub(crate) name: String,
    pub(crate) stage: Stage,
    /// The certificate that is shown.
    pub(crate) known: Option<Arc<Certificate>>,
    pub(crate) wish: Option<Wish>,
    /// Until then no other is ordered.
    pub(crate) fresh_until: Instant,
}

/// What came of it.
pub(crate) enum Tended {
    /// Another process orders it.
    Elsewhere,
    /// Another process has ordered it.
    Found(Arc<Certificate>),
    /// It is not due.
    Rests(Wish),
    Issued(Arc<Certificate>),
    Failed(Failure),
}

/// The same with what is worth a line.
pub(crate) struct Report {
    pub(crate) came: Tended,
    pub(crate) told: Vec<String>,
}

impl Task {
    pub(crate) async fn run(self) -> Report {
        let mut told = Vec::new();
        let came = self.tend(&mut told).await.unwrap_or_else(Tended::Failed);
        Report { came, told }
    }

    async fn tend(&self, told: &mut Vec<String>) -> Result<Tended, Failure> {
        let drawer = self.authority.archive.drawer(&self.policy, &self.name);
        let Some(_lease) = drawer.lease()? else { return Ok(Tended::Elsewhere) };
        let now = SystemTime::now();
        if let Some(kept) = drawer.certificate()
            && kept.not_after() > now
            && self.known.as_ref() != Some(&kept)
        {
            return Ok(Tended::Found(kept));
        }
        if let Some(known) = &self.known {
            let wish = self.wish(known, now).await;
            if due_of(known, wish.window) > now || self.fresh_until > Instant::now() {
                return Ok(Tended::Rests(wish));
            }
        }
        self.order(&drawer, told).await
    }

    /// Asks the authority when it would like the certificate to be renewed, unless what it said still holds.
    async fn wish(&self, known: &Certificate, now: SystemTime) -> Wish {
        if let Some(wish) = self.wish.filter(|wish| wish.until > now) {
            return wish;
        }
        let window = match (identifier(known), self.authority.account(&self.policy).await) {
            (Some(identifier), Ok(account)) => account.renewal_info(&identifier).await.map_err(Failure::from),
            _ => Err(Failure::Authority(Error::Unsupported("renewal information"))),
        };
        let Ok((info, again)) = window else {
            return Wish { window: None, until: now + ASK_LATER };
        };
        let time = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.max(0).unsigned_abs());
        let (start, end) = (info.suggested_window.start, info.suggested_window.end);
        let window = Window { start: time(start.unix_timestamp()), end: time(end.unix_timestamp()) };
        Wish { window: Some(window), until: now + again.clamp(ASK_AGAIN.0, ASK_AGAIN.1) }
    }

    async fn order(&self, drawer: &Drawer, told: &mut Vec<String>) -> Result<Tended, Failure> {
        let ordering = Ordering {
            authority: &self.authority,
            policy: &self.policy,
            name: &self.name,
            drawer,
            stage: &self.stage,
            replaces: self.known.as_deref().and_then(identifier),
        };
        let Paper { chain, key } = ordering.run(told).await?;
        let read = Certificate::read(chain.as_bytes(), key.as_bytes());
        let certificate = match read {
            Ok(certificate) if certificate.names().contains(&self.name) => Arc::new(certificate),
            Ok(_) => return Err(self.unusable(drawer, "is for another name")),
            Err(flaw) => return Err(self.unusable(drawer, &flaw.to_string())),
        };
        drawer.keep_certificate(&chain, &key)?;
        drawer.forget_order()?;
        Ok(Tended::Issued(certificate))
    }

    fn unusable(&self, drawer: &Drawer, why: &str) -> Failure {
        // Asked for again it would be the same.
        let _ = drawer.forget_order();
        Failure::Other(format!("what the authority has issued {why}"))
    }
}

/// When a certificate is renewed.
pub(crate) fn due_of(certificate: &Certificate, window: Option<Window>) -> SystemTime {
    let validity = Validity { from: certificate.not_before(), until: certificate.not_after() };
    due(validity, window, chance_of(certificate.digest()))
}

/// What the authority knows a certificate by (RFC 9773 §4.1).
fn identifier(certificate: &Certificate) -> Option<CertificateIdentifier<'static>> {
    let leaf = CertificateDer::from(certificate.leaf());
    CertificateIdentifier::try_from(&leaf).ok().map(CertificateIdentifier::into_owned)
}
