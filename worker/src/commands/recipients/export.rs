//! `tidings recipients export`: everything that is held about a person (GDPR, articles 15 and 20). The document is written while it is
//! read, so that its size does not matter.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_model::records::{Cursor, Listed, Page, Part, Person, PersonId, RowPlace};
use tidings_store::Store;

use super::unknown::unknown;
use crate::{Config, error::Usage, storage};

/// Rows of a page. Messages come with their bytes.
const ROWS: u32 = 500;
const MESSAGES: u32 = 20;

/// Writes the export to the file or to standard output. `false`: nothing is held about the person.
///
/// # Errors
/// The store does not answer, or the file exists or cannot be written.
pub(super) async fn run(id: &PersonId, out: Option<&Path>, config: &Config) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let person = store.person(id).await?;
    let types = &config.unsigned().digest_types(&id.tenant) | &person.digest_types;
    let export = Export { store: &*store, id, person: &person, types };
    if person.is_empty() && export.rows(Part::Audit, "", None).await?.rows.is_empty() {
        return Ok(unknown(id));
    }
    let Some(path) = out else {
        export.write(&mut BufWriter::new(io::stdout())).await?;
        return Ok(true);
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Usage(format!("{} exists; name a new file", path.display())).into(),
        _ => anyhow::Error::from(error).context(format!("{} cannot be written", path.display())),
    })?;
    let written = export.write(&mut BufWriter::new(file)).await;
    if written.is_err() {
        // Half of an export would pass for all of it.
        fs::remove_file(path).with_context(|| format!("{} is incomplete and cannot be deleted", path.display()))?;
    }
    written.map(|()| true)
}

struct Export<'a> {
    store: &'a dyn Store,
    id: &'a PersonId,
    person: &'a Person,
    /// The digest types to look in.
    types: BTreeSet<String>,
}

impl Export<'_> {
    async fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let Person { recipient, preferences, consents, readings, suppressions, addresses, .. } = self.person;
        writeln!(out, "{{\"tenant\":{},\"user\":{},", json!(self.id.tenant), json!(self.id.user))?;
        writeln!(out, "\"exported_at\":{},", json!(Timestamp::now()))?;
        for (name, value) in [
            ("recipient", json!(recipient)),
            ("addresses", json!(addresses)),
            ("preferences", json!(preferences)),
            ("consents", json!(consents)),
            ("readings", json!(readings)),
            ("suppressions", json!(suppressions)),
        ] {
            writeln!(out, "\"{name}\":{value},")?;
        }
        for (n, part) in Part::ALL.into_iter().enumerate() {
            write!(out, "{}\"{}\":[", if n == 0 { "" } else { ",\n" }, part.name())?;
            self.write_rows(part, out).await?;
            write!(out, "]")?;
        }
        writeln!(out, "}}")?;
        Ok(out.flush()?)
    }

    /// Rows of each digest type, and then those of none.
    async fn write_rows(&self, part: Part, out: &mut impl Write) -> anyhow::Result<()> {
        let mut separator = "\n";
        for digest_type in self.types.iter().map(String::as_str).chain([""]) {
            let mut after = None;
            loop {
                let Listed { rows, next } = self.rows(part, digest_type, after).await?;
                for row in rows {
                    write!(out, "{separator}{row}")?;
                    separator = ",\n";
                }
                if next.is_none() {
                    break;
                }
                after = next;
            }
        }
        Ok(())
    }

    async fn rows(
        &self,
        part: Part,
        digest_type: &str,
        after: Option<Cursor<RowPlace>>,
    ) -> anyhow::Result<Listed<Value, RowPlace>> {
        let limit = if part == Part::Messages { MESSAGES } else { ROWS };
        let page = Page { limit, after };
        Ok(self.store.held(&self.id.key(digest_type), &self.person.addresses, part, &page).await?)
    }
}
