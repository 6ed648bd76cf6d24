//! PostgreSQL.
/// A store in a PostgreSQL database.
pub struct Postgres;
