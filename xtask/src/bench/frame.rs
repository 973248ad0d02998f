//! What all reports have in common: the machine during the run, the order of a report's parts, and what becomes of it.
//!
//! Called by every bench at its begin ([`Conditions::begin`]) and at its end ([`Run::finish`]).

use std::fmt::Write;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::figures::{Gate, write_gates};
use super::machine;
use super::process::CpuTicks;
use crate::command::{output, root};

/// The machine at the begin of a run.
pub(crate) struct Conditions {
    /// Load average just before it.
    load: f64,
    ticks: CpuTicks,
}

impl Conditions {
    /// Looks at the machine, and says how busy it is.
    pub(crate) fn begin() -> Result<Self> {
        let load = machine::load_average();
        println!("bench: load average before the run: {load:.2}");
        Ok(Self { load, ticks: CpuTicks::now()? })
    }

    /// The run is over.
    pub(crate) fn end(self) -> Result<Run> {
        Ok(Run { load: self.load, steal: self.ticks.stolen_until(&CpuTicks::now()?) })
    }
}

/// The machine during a run.
pub(crate) struct Run {
    load: f64,
    /// Share of CPU time taken by the hypervisor.
    steal: f64,
}

/// What a bench has to report, in the order of the text.
pub(crate) trait Report {
    /// The heading.
    fn title(&self) -> String;
    /// The tables.
    fn figures(&self, text: &mut String) -> Result<()>;
    /// What the product has to keep.
    fn gates(&self) -> Vec<Gate>;
    /// What took part, a line each.
    fn versions(&self) -> Vec<String>;
    /// How it was measured: items of a list.
    fn method(&self, text: &mut String) -> Result<()>;
    /// Plots beside the text: how the names of their files go on after the date, and SVG.
    fn plots(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// What to do with a report.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    /// It becomes the result of the day, under the name of the bench: a partial run must not replace that.
    pub(crate) keep: bool,
    /// A missed gate is an error.
    pub(crate) gate: bool,
}

impl Run {
    /// Prints the report of `bench`, and does with it what was asked for.
    pub(crate) fn finish(&self, bench: &str, report: &impl Report, to: Use) -> Result<()> {
        let text = self.markdown(report)?;
        println!("{text}");
        if to.keep {
            write_result(bench, &text)?;
            for (name, plot) in report.plots() {
                write_file(&format!("{bench}-{}-{name}.svg", today()?), &plot)?;
            }
        }
        // What was not measured is not passed either.
        if to.gate && !report.gates().iter().all(Gate::passes) {
            bail!("a gate was missed");
        }
        Ok(())
    }

    fn markdown(&self, report: &impl Report) -> Result<String> {
        let mut text = format!("# {}\n", report.title());
        report.figures(&mut text)?;
        write_gates(&report.gates(), &mut text)?;
        writeln!(text, "\n## Method\n")?;
        writeln!(text, "- machine: {}", machine::describe())?;
        for version in report.versions() {
            writeln!(text, "- {version}")?;
        }
        writeln!(text, "- tree: {}", machine::commit())?;
        writeln!(
            text,
            "- load average before the run: {:.2}; steal during it: {:.2} % of CPU time",
            self.load,
            self.steal * 100.0
        )?;
        report.method(&mut text)?;
        Ok(text)
    }
}

/// Writes a report into the folder of results, under the name of the bench and the date.
pub(crate) fn write_result(bench: &str, text: &str) -> Result<()> {
    write_file(&format!("{bench}-{}.md", today()?), text)
}

/// The date in names of results.
pub(crate) fn today() -> Result<String> {
    Ok(output(Command::new("date").arg("+%F"))?.trim().to_owned())
}

fn write_file(name: &str, text: &str) -> Result<()> {
    let name = format!("bench/results/{name}");
    let path = root().join(&name);
    fs::create_dir_all(path.parent().context("no folder for results")?)?;
    fs::write(&path, text)?;
    println!("bench: written to {name}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(f64);

    impl Report for One {
        fn title(&self) -> String {
            "One".to_owned()
        }

        fn figures(&self, text: &mut String) -> Result<()> {
            Ok(writeln!(text, "\nfigures")?)
        }

        fn gates(&self) -> Vec<Gate> {
            vec![Gate { name: "gate".to_owned(), most: 1.0, measured: Some(self.0) }]
        }

        fn versions(&self) -> Vec<String> {
            vec!["version".to_owned()]
        }

        fn method(&self, text: &mut String) -> Result<()> {
            Ok(writeln!(text, "- method")?)
        }
    }

    #[test]
    fn the_parts_stand_in_their_order() {
        let text = Run { load: 0.5, steal: 0.25 }.markdown(&One(1.0)).unwrap();
        let places =
            ["# One\n", "figures", "## Gates", "| gate |", "## Method", "- version", "0.50", "25.00 %"];
        let places = places.map(|part| text.find(part).unwrap());
        assert!(places.is_sorted(), "{text}");
        assert!(text.ends_with("- method\n"), "{text}");
    }

    #[test]
    fn a_missed_gate_is_an_error_only_where_it_was_asked_for() {
        let finish = |measured, gate| {
            Run { load: 0.0, steal: 0.0 }.finish("one", &One(measured), Use { keep: false, gate })
        };
        assert!(finish(1.0, true).is_ok() && finish(2.0, false).is_ok());
        assert!(finish(2.0, true).is_err());
    }
}
