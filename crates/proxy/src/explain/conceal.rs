//! Hides secrets of the configuration in an [`Explanation`]: filters may have put them into the path, the query, the
//! host, or the place of a redirect. The request itself is shown as the client of the API has written it.

use super::explanation::{Because, Explanation, Outcome};
use thalweg_core::Concealed;

impl Explanation {
    /// The same without secrets.
    pub(super) fn without(mut self, concealed: &Concealed) -> Self {
        for text in self.texts() {
            *text = concealed.hide(text).into_owned();
        }
        self
    }

    /// Every text that comes from the configuration or from filters.
    fn texts(&mut self) -> Vec<&mut String> {
        let mut all = Vec::new();
        if let Some(route) = &mut self.route {
            all.push(&mut route.matches);
            all.extend(route.filters.iter_mut().flat_map(|step| [&mut step.before, &mut step.after]));
            if let Some(cache) = &mut route.cache {
                all.extend(cache.because.iter_mut().chain(&mut cache.key));
                all.extend(cache.key_parts.iter_mut().chain(&mut cache.remarks));
            }
            all.extend(&mut route.split_by);
            all.extend(route.sealed.iter_mut().filter_map(|sealed| sealed.destination.as_mut()));
            for part in &mut route.services {
                all.extend(part.host.iter_mut().chain(&mut part.key).chain(&mut part.sticky_to));
                for endpoint in &mut part.endpoints {
                    all.push(&mut endpoint.url);
                    all.extend(&mut endpoint.cause);
                }
            }
        }
        for other in &mut self.other_routes {
            all.push(&mut other.matches);
            match &mut other.because {
                Because::Fails(failed) => all.push(&mut failed.expected),
                Because::After(ahead) => all.push(ahead),
            }
        }
        match &mut self.outcome {
            Outcome::Forwarded { target, host, .. } => {
                all.push(target);
                all.extend(host);
            }
            Outcome::Replied { location, .. } => all.extend(location),
            Outcome::Redirected { location, .. } => all.push(location),
            Outcome::Answered { .. } => {}
        }
        all
    }
}
