//! What `cargo xtask fuzz` asks before it starts libFuzzer: without an argument, the names of all targets; with one,
//! `thalweg-fuzz TARGET FOLDER`, writes its seeds into the folder and prints libFuzzer's options for it. And
//! `thalweg-fuzz --seed NAME FILE` prints a finding as it would stand in a pack.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use thalweg_fuzz::{seeds, targets};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] => {
            targets::TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["--seed", name, file] => show(name, Path::new(file)),
        [target, folder] => prepare(target, Path::new(folder)),
        _ => Err("usage: thalweg-fuzz [TARGET FOLDER | --seed NAME FILE]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(name: &str, file: &Path) -> Result<(), Box<dyn Error>> {
    print!("{}", seeds::write(name, &fs::read(file)?));
    Ok(())
}

fn prepare(name: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let target = targets::find(name).ok_or_else(|| format!("there is no target {name}"))?;
    fs::create_dir_all(folder)?;
    for (number, seed) in seeds::of(target)?.iter().enumerate() {
        fs::write(folder.join(format!("seed-{number}-{}", seed.name)), &seed.bytes)?;
    }
    println!("-dict={}", seeds::dictionary(target).display());
    println!("-max_len={}", target.bytes);
    Ok(())
}
