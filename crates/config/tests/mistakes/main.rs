//! Mistakes that people make, made on purpose: how many are refused with the right line, and that none which
//! changes the meaning of a file goes unnoticed.
//!
//! Each mutation is one mistake in one of the example files or good goldens, and knows the lines on which it
//! has to be shown. One that means the same as the original is no mistake and is not counted. The choice among
//! all of them is fixed by a hash, so it is the same in every run and changes little when the files change.
//!
//! `UPDATE_GOLDENS=1` writes `docs/reference/mistakes.md` anew.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

#[path = "../certificates/mod.rs"]
mod certificates;
mod corpus;
mod lines;
mod mutation;
mod page;
mod values;

use corpus::{File, environment, meaning};
use mutation::{Mistake, Mutation};
use thalweg_config::{Look, Report, Span, check_text};

/// How many mistakes the page counts.
const MISTAKES: usize = 500;
/// Of a hundred of them, so many are refused with the right line at least.
const REFUSED: usize = 95;
/// So many of them change the meaning without a word: only what no reader of the file alone can notice.
const UNNOTICED: usize = 0;

/// What became of a mutation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The text means what it meant before.
    Same,
    /// Refused, with the right line.
    Refused,
    /// Refused, but no error is on the right line.
    Elsewhere,
    /// It runs, with a warning on the right line.
    Warned,
    /// It runs, with another meaning, and no word about it.
    Unnoticed,
}

/// A mutation, what became of it, and what was said.
pub(crate) struct Judged {
    pub(crate) mutation: Mutation,
    pub(crate) verdict: Verdict,
    /// The first error is on the right line.
    pub(crate) first: bool,
    pub(crate) said: String,
}

fn is_on(report: &Report, span: Span, lines: &[usize]) -> bool {
    lines.contains(&report.sources.position(span).line)
}

/// Whatever is wrong, every place is one of the text, and what is said can be shown.
fn is_sound(report: &Report) {
    for error in &report.errors {
        for span in error.related.iter().map(|(span, _)| *span).chain([error.span]) {
            let text = report.sources.get(span.file).unwrap().text();
            assert!(text.get(span.range()).is_some(), "{span:?} of {error:?}");
        }
    }
    assert!(report.errors.is_empty() || !report.render(Look::Plain).is_empty());
}

fn judge(files: &[File], mutation: Mutation) -> Judged {
    let file = &files[mutation.file];
    let text = mutation.text(&file.text);
    let on = |report: &Report, at: usize| {
        let error = &report.errors[at];
        let spans = error.related.iter().map(|(span, _)| *span).chain([error.span]);
        spans.into_iter().any(|span| is_on(report, span, &mutation.lines))
    };
    let any = |report: &Report| (0..report.errors.len()).any(|at| on(report, at));
    let (verdict, first, said) = match check_text("mutated.yaml", &text, &environment) {
        Err(report) => {
            is_sound(&report);
            let verdict = if any(&report) { Verdict::Refused } else { Verdict::Elsewhere };
            (verdict, on(&report, 0), report.lines())
        }
        Ok(loaded) => {
            is_sound(&loaded.warnings);
            let verdict = match meaning(&text) {
                Some(now) if now == file.meaning => Verdict::Same,
                _ if any(&loaded.warnings) => Verdict::Warned,
                _ => Verdict::Unnoticed,
            };
            (verdict, false, loaded.warnings.lines())
        }
    };
    Judged { mutation, verdict, first, said }
}

/// Every mutation of every file, by kind, each kind in the order of the seed.
fn all(files: &[File], seed: u64) -> Vec<Vec<Mutation>> {
    let mut kinds: Vec<Vec<Mutation>> = Mistake::ALL.iter().map(|_| Vec::new()).collect();
    for (number, file) in files.iter().enumerate() {
        let mut maker = values::Maker { number, file, made: Vec::new() };
        values::make(&mut maker);
        lines::make(&mut maker);
        for mutation in maker.made {
            let kind = Mistake::ALL.iter().position(|kind| *kind == mutation.mistake).unwrap();
            kinds[kind].push(mutation);
        }
    }
    for kind in &mut kinds {
        kind.sort_by_cached_key(|mutation| (mutation.order(seed), mutation.file));
    }
    kinds
}

/// As many real mistakes as asked for, in equal parts of each kind as far as there are so many.
fn choose(files: &[File], seed: u64, count: usize) -> Vec<Judged> {
    let mut kinds: Vec<_> = all(files, seed).into_iter().map(Vec::into_iter).collect();
    let mut chosen: Vec<Judged> = Vec::new();
    while chosen.len() < count {
        let before = chosen.len();
        for kind in &mut kinds {
            let mut judged = kind.by_ref().map(|mutation| judge(files, mutation));
            chosen.extend(judged.find(|judged| judged.verdict != Verdict::Same));
        }
        assert!(chosen.len() > before, "there are only {before} mistakes");
    }
    chosen.truncate(count);
    chosen.sort_by_key(|judged| judged.mutation.mistake);
    chosen
}

fn count(judged: &[Judged], verdict: Verdict) -> usize {
    judged.iter().filter(|judged| judged.verdict == verdict).count()
}

#[test]
fn seeded_mistakes_are_refused_with_the_right_line() {
    let files = File::all();
    assert!(files.len() >= 10, "{}", files.len());
    let judged = choose(&files, 0, MISTAKES);
    let text = page::render(&files, &judged);
    page::agree(&text);
    assert!(count(&judged, Verdict::Refused) * 100 >= MISTAKES * REFUSED, "{text}");
    assert!(count(&judged, Verdict::Unnoticed) == UNNOTICED, "{text}");
}

/// The figure does not hang on the choice; with `THALWEG_LONG=1`, on more of them.
#[test]
fn other_choices_give_the_same_figure() {
    let files = File::all();
    let choices = if std::env::var("THALWEG_LONG").as_deref() == Ok("1") { 5 } else { 1 };
    for seed in 1..=choices {
        let judged = choose(&files, seed, MISTAKES);
        let text = page::render(&files, &judged);
        assert!(count(&judged, Verdict::Refused) * 100 >= MISTAKES * REFUSED, "{text}");
    }
}
