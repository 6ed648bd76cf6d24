//! Slots over changes of the clock, compared with Python's zoneinfo.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use jiff::{Timestamp, tz::TimeZoneDatabase};
use serde::Deserialize;
use tidings_harness::python::python;
use tidings_model::Cadence;
use tidings_needs::needs;

/// A line of tests/interop/slots.py.
#[derive(Deserialize)]
struct Answer {
    zone: String,
    cadence: Cadence,
    /// Seconds since 1970, as the slots.
    from: i64,
    slots: Vec<i64>,
}

#[needs(python)]
#[test]
fn pythons_zoneinfo_computes_the_same_slots() -> Result<()> {
    let python = python()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/slots.py");
    let output = Command::new(python).arg(script).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines();
    // Both sides read this database, so that they know of the same changes.
    let folder: String = serde_json::from_str(lines.next().context("no folder")?)?;
    let zones = TimeZoneDatabase::from_dir(folder)?;
    let mut answers = 0;
    for line in lines {
        let Answer { zone: name, cadence, from, slots } = serde_json::from_str(line)?;
        let zone = zones.get(&name)?;
        let mut at = Timestamp::from_second(from)?;
        for slot in &slots {
            let next = cadence.due_at(at, &zone);
            assert_eq!(next, Timestamp::from_second(*slot)?, "{cadence} {name} after {at}");
            at = next;
        }
        assert!(slots.len() > 200, "{cadence} {name}: only {} slots", slots.len());
        answers += 1;
    }
    assert_eq!(answers, 60);
    Ok(())
}
