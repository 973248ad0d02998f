//! What logs and records may show of an exchange's texts: no sealed label.

use crate::state::local_plan::LocalPlan;
use crate::state::worker::Worker;
use std::borrow::Cow;
use std::rc::Rc;

/// What logs and records may show of an exchange's texts: no label.
#[derive(Debug)]
pub(crate) struct LabelRedactor(Option<Rc<LocalPlan>>);

impl LabelRedactor {
    /// As the plan in force has it.
    pub(crate) fn of(worker: &Worker) -> Self {
        // Most have nothing to hide.
        Self(worker.has_labels().then(|| worker.view()))
    }

    /// The text without labels.
    pub(crate) fn over<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.0 {
            Some(view) => view.current.redactor.redact(text),
            None => Cow::Borrowed(text),
        }
    }
}
