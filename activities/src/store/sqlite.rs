//! SQLite: the embedded default.
/// A store in one file.
pub struct Sqlite;
